"""The results of several machines side by side.

docs/benchmarks.json has those of the machine that all other pages speak of, docs/machines/ a file for each other one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import ENGINES
from benchmarks.machine import identity, name, wide
from benchmarks.models import ROOT
from benchmarks.tables import NONE, ratio, settings, table, title

Results = dict[str, Any]
DOCS = ROOT / "docs"
NAME = "benchmarks"
"""Of the page, and of the first machine's results."""

OTHERS = "machines"


def place(results: Results, docs: Path = DOCS) -> Path:
    """Where results belong: those of the first machine, and of any if there are none, in the file of the first."""
    first = docs / f"{NAME}.json"
    here = results["machine"]
    if not first.exists() or identity(here) == identity(json.loads(first.read_text(encoding="utf-8"))["machine"]):
        return first
    words = f"{name(here)} {here['cpus']} cpus"
    return docs / OTHERS / f"{re.sub('[^a-z0-9]+', '-', words.lower()).strip('-')}.json"


def published(docs: Path = DOCS) -> tuple[Results, Path, list[Results]]:
    """The first machine's results, their folder, and those of every other, in the order of the files' names."""
    paths = [docs / f"{NAME}.json", *sorted((docs / OTHERS).glob("*.json"))]
    first, *others = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    return first, docs, others


def lettered(others: Sequence[Results]) -> Iterator[tuple[str, Results]]:
    """Each machine but the first, with its letter in ``side_by_side``."""
    return ((_letter(1 + number), results) for number, results in enumerate(others))


def side_by_side(every: Sequence[Results]) -> str:
    """Ratios of all machines, by number of threads, and what each machine is."""
    parts = [
        "Best peer's median / ours, the tenth and ninetieth percentile of that over the rounds, and who the peer was. "
        "Each column is a run of its own on its machine.",
        "\n".join(_machine(number, results) for number, results in enumerate(every)),
    ]
    for key in settings(every[0]["networks"]):
        parts += [f"### {title(key)} on each machine", table(_rows(every, key))]
    return "\n\n".join(parts)


def _machine(number: int, results: Results) -> str:
    machine = results["machine"]
    numbers = "/".join(filter(None, machine["family_model_stepping"]))
    details = [
        f"family, model, stepping {numbers}" if numbers else "",
        f"{machine['cpus']} CPUs",
        f"{results['rounds']} rounds" if "rounds" in results else "",
    ]
    said = f"- **{_letter(number)}**: {name(machine)}, {wide(machine)} ({', '.join(filter(None, details))})."
    return f"{said} {results['note']}" if "note" in results else said


def _rows(every: Sequence[Results], key: str) -> list[list[str]]:
    heads = [f"{_letter(number)}: {wide(results['machine'])}" for number, results in enumerate(every)]
    rows = [["", *heads]]
    for network in dict.fromkeys(network for results in every for network in results["networks"]):
        rows.append([network, *(_cell(results, network, key) for results in every)])
    return rows


def _cell(results: Results, network: str, key: str) -> str:
    found = results["networks"].get(network, {}).get("latency", {}).get(key, {})
    return f"{ratio(found)} {ENGINES[found['best_peer']].label}" if found.get("ratio") else NONE


def _letter(number: int) -> str:
    return chr(ord("A") + number)
