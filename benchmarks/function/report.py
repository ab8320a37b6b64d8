"""Tables of what was measured: in the terminal, and in docs/benchmarks-function.md.

``python -m benchmarks.function.report [RESULTS.json]`` keeps RESULTS.json in benchmarks/results/ and writes the page
anew, from the results of both subjects that are kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.function.functions import EMPTY, OURS, SUBJECTS, Subject
from benchmarks.models import ROOT
from benchmarks.report import RESULTS, read_results, write_json
from benchmarks.tables import NONE, table

Results = dict[str, Any]
BUDGET_MS, ZIP_LIMIT = 150, 262_144_000
PAGE = ROOT / "docs" / "benchmarks-function.md"
TITLES = {
    "init_ms": "init",
    "own_init_ms": "without Python's start",
    "init_cpu_ms": "CPU of that, least",
    "first_ms": "first request",
    "answer_ms": "cold, in all",
    "warm_ms": "warm request",
    "peak_rss_mb": "peak memory, MB",
    "unzipped_bytes": "unzipped, MB",
}


def read_subjects() -> list[Results]:
    """Read the results of every subject that are kept."""
    return [read_results(f"function-{name}") for name in SUBJECTS if (RESULTS / f"function-{name}.json").exists()]


def subject(results: Results) -> Subject:
    return SUBJECTS[results.get("subject", "emotion")]


def text(results: Results) -> str:
    """Return the tables that a terminal shows."""
    return "\n".join(
        [
            f"Medians of {results['starts']} fresh starts, ms (tenth–ninetieth percentile)",
            table(rows(results)),
            "",
            budget(results),
            *(f"{subject(results).kinds[name].label} is left out: {why}" for name, why in results["excluded"].items()),
        ]
    )


def rows(results: Results) -> list[list[str]]:
    """Return a row for each function, and a row of the best peer's figures over ours."""
    lines = [["", *TITLES.values()]]
    for name, kind in subject(results).kinds.items():
        row = results["functions"].get(name)
        if row:
            lines.append([kind.label, *(_cell(part, row[part]) for part in TITLES)])
    ratios = [f"{value:.2f}" if value else NONE for value in (results["ratios"][part] for part in TITLES)]
    return [*lines, ["best peer / ours", *ratios]]


def _cell(part: str, value: Any) -> str:
    if part == "unzipped_bytes":
        return f"{value / 1e6:.1f}{' (over Lambda’s limit)' if value > ZIP_LIMIT else ''}"
    if part == "init_cpu_ms":
        return f"{value['least']:.0f}"
    digits = 1 if value["median"] < 100 else 0
    middle, low, high = (f"{value[key]:.{digits}f}" for key in ("median", "p10", "p90"))
    return f"{middle} ({low}–{high})"


def budget(results: Results) -> str:
    """Return a sentence on our init and the budget."""
    ours, empty = results["functions"][OURS], results["functions"][EMPTY]
    init, python = ours["own_init_ms"], results["python_start_ms"]["median"]
    cpu, client = ours["init_cpu_ms"]["least"], empty["init_cpu_ms"]["least"]
    return (
        f"Our function's init takes {init['median']:.0f} ms, at least {init['least']:.0f}, without Python's start "
        f"({python:.0f} ms). The budget is {BUDGET_MS} ms. The processor works {cpu:.0f} ms for it, of which "
        f"{client:.0f} ms are Lambda's runtime client, which every function has."
    )


def page(every: Sequence[Results]) -> str:
    """Return docs/benchmarks-function.md, of the results of every subject."""
    parts = [
        "# The whole function, on other engines",
        "<!-- Written by `python -m benchmarks.function.report` from benchmarks/results/. -->",
        "This page compares the function as it is deployed with the same function as one would write it on other "
        "engines. The peers' functions have one event and no protocols; ours has all. Every figure is from AWS's "
        "Runtime Interface Emulator. A ratio above 1 says that ours is ahead of the best peer.",
        "- *init*: the time from Python's start until the function takes requests, as the emulator reports it.\n"
        "- *Without Python's start*: init less the median of a bare `python -S -c pass`. It includes the runtime "
        "client, which every function has.\n"
        "- *CPU of that*: the processor's time for the same imports in a process of their own, the least of all "
        "runs. Other programs on the machine disturb it least.\n"
        "- *First request*: what the first caller waits for after init. *Cold, in all*: init and first request. "
        "*Warm*: the median of later requests. All three are measured by a client, through the emulator.\n"
        "- *Peak memory*: of the function's process, after the warm requests.\n"
        "- *Unzipped*: the function with its packages, and for ours the model layer. A peer's packages are its wheel "
        "and everything that the wheel requires, untrimmed. Lambda takes 262 MB.",
    ]
    for results in every:
        parts += section(results)
    return "\n\n".join(parts) + "\n"


def section(results: Results) -> Iterator[str]:
    """Yield the paragraphs about one subject."""
    machine, of = results["machine"], subject(results)
    load = f"{machine['load_average'][0]:.1f} before, {machine['load_average_after'][0]:.1f} after"
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    yield f"## {of.title}"
    yield f"The functions serve {of.serves}. {of.differ} {budget(results)}"
    yield f"Medians of {results['starts']} fresh starts in ms, with the tenth–ninetieth percentile in brackets:"
    yield table(rows(results))
    if results["excluded"]:
        yield "\n".join(f"- {of.kinds[name].label} is left out: {why}" for name, why in results["excluded"].items())
    yield (
        f"- {machine['processor']}, {', '.join(machine['instruction_sets'])}; {machine['system']}. Python "
        f"{machine['function_python']} for every function. Load average {load}.\n"
        f"- Versions: {versions}.\n"
        "- Functions take turns on one CPU, in an order that moves on by one each round. Files are in the page cache, "
        f"and bytecode is written. Before it is measured, each function must give our {of.answer} to within 0.001.\n"
        + "\n".join(f"- {label}: {what}" for label, what in results["settings"].items())
    )


def main() -> None:
    if len(sys.argv) > 1:
        results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        write_json(results, RESULTS / f"function-{results['subject']}.json")
    PAGE.write_text(page(read_subjects()), encoding="utf-8")


if __name__ == "__main__":
    main()
