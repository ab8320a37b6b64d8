"""Tables of what was measured: in the terminal, and in docs/benchmarks.md.

``python -m benchmarks.report [RESULTS.json [NAME]]`` keeps RESULTS.json in benchmarks/results/ and writes the page
anew. NAME is ``batch16``, ``minilm`` or ``untuned`` for these secondary runs; without it, the results are those of
their machine. Without any argument the page alone is written, from the results that are kept.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import held_out
from benchmarks.engines import ENGINES, INT8, KINDS, OURS
from benchmarks.machine import name as processor
from benchmarks.machine import wide
from benchmarks.models import ROOT
from benchmarks.tables import NONE, bold, ms, ratio, settings, table, title

Results = dict[str, Any]
RESULTS = Path(__file__).with_name("results")
MAIN = "amd-epyc-zen-3-milan-2-cpus"
"""The machine whose times README and the pages quote."""
SECONDARY = ("batch16", "minilm", "untuned")
"""The names of the results that ``page`` takes besides those of each machine."""
PAGE = ROOT / "docs" / "benchmarks.md"

INT8_WORDS = f"""\
Weights and activations are bytes, made by each engine's own tools with the same calibration set, and timed in the same
rounds. Behind each median, in ms, is how it answers {held_out.JUDGED} other inputs: the share in which TensorFlow's top
class is its top class, and its error, the root mean square of the differences as a share of how much TensorFlow's
answers themselves differ. Weights that were not trained are harder to round than trained ones. A model with an error
above {held_out.BROKEN:g} is left out. The last columns: the best int8 peer's time over that of our int8, and our
float32's."""


def write_json(results: Results, path: Path) -> None:
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_results(name: str) -> Results:
    """Read the results that are kept as ``name``."""
    results: Results = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return results


def read_machines() -> list[Results]:
    """Read the results of every machine, MAIN first and the others in the order of their files' names."""
    paths = sorted((RESULTS / "machines").glob("*.json"), key=lambda path: (path.stem != MAIN, path.stem))
    return [read_results(f"machines/{path.stem}") for path in paths]


def machine_name(machine: dict[str, Any]) -> str:
    """Return the name under which results of ``machine`` are kept."""
    return re.sub("[^a-z0-9]+", "-", f"{processor(machine)} {machine['cpus']} cpus".lower()).strip("-")


def text(results: Results) -> str:
    """Return the tables that a terminal shows."""
    parts = []
    for key in settings(results["networks"]):
        parts += [title(key), table(latency_rows(results, key)), describe_mean(results, key), ""]
        if len(rows := int8_rows(results, key)) > 1:
            parts += ["int8: ms (same class as TensorFlow, error)", table(rows), ""]
    if any("cold" in network for network in results["networks"].values()):
        parts += ["Fresh process to first answer: import/load/first = sum, ms, 1 thread", table(cold_rows(results)), ""]
        parts += ["Peak memory and installed size, MB", table(size_rows(results)), ""]
    parts += [f"{name}: {note}" for name, note in notes(results)]
    return "\n".join(parts)


def latency_rows(results: Results, key: str) -> list[list[str]]:
    """Return the median ms of each engine, the ratio with its spread over the rounds, and the ratio aimed at."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "best peer / ours", "aim"]]
    for name, network in results["networks"].items():
        latency = network["latency"].get(key)
        if latency is None:
            continue
        cells = [ms(latency["engines"].get(engine, {}).get("median_ms")) for engine in ENGINES]
        aim = f"{network['claim'][min(int(key.split('-')[0]), 2) - 1]:g}" if "avx2" not in key else NONE
        rows.append([name, *cells, ratio(latency), aim])
    return rows


def describe_mean(results: Results, key: str) -> str:
    """Return the geometric mean of the ratios of a setting in words."""
    measured = [network["latency"].get(key, {}).get("ratio") for network in results["networks"].values()]
    logarithms = [math.log(ratio) for ratio in measured if ratio]
    mean = math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan
    return f"geometric mean {mean:.2f} of {len(logarithms)} networks"


def int8_rows(results: Results, key: str) -> list[list[str]]:
    """Return the median ms of each int8 engine, how often it has TensorFlow's top class, and its error."""
    rows = [["", *(kind.label for kind in INT8.values()), "best peer / ours", "our float32 / ours"]]
    for name, network in results["networks"].items():
        latency = network["latency"].get(key, {})
        if "int8" in latency:
            cells = [_judged(latency["engines"].get(engine)) for engine in INT8]
            gain = latency["int8"]["gain"]
            rows.append([name, *cells, ratio(latency["int8"]), bold(gain) if gain else NONE])
    return rows


def _judged(row: dict[str, Any] | None) -> str:
    if row is None:
        return NONE
    share, error = row["accuracy"]["same_class"], row["accuracy"]["error"]
    return f"{ms(row['median_ms'])} ({NONE if share is None else f'{share:.0%}'}, {error:.3f})"


def cold_rows(results: Results) -> list[list[str]]:
    """Return import / load / first answer = their sum, and the best peer's over ours, also with Python's start."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "best peer / ours", "with Python's start"]]
    for name, network in results["networks"].items():
        cold = network.get("cold")
        if not cold:
            continue
        cells = []
        for engine in ENGINES:
            row = cold["engines"].get(engine)
            parts = [row[f"{part}_ms"] for part in ("import", "load", "first")] if row else []
            cells.append(f"{'/'.join(ms(p, 0) for p in parts)} = {row['start_ms']:.0f}" if row else NONE)
        ratios = [bold(cold[key]) if cold[key] else NONE for key in ("start_ratio", "total_ratio")]
        rows.append([name, *cells, *ratios])
    return rows


def size_rows(results: Results) -> list[list[str]]:
    """Return the peak resident memory after the first answer, and the bytes of engine + model on disk."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "memory", "size"]]
    for name, network in results["networks"].items():
        cold = network.get("cold")
        if not cold:
            continue
        cells = []
        for engine in ENGINES:
            row = cold["engines"].get(engine)
            sizes = f"{row['engine_bytes'] / 1e6:.0f}+{row['model_bytes'] / 1e6:.1f}" if row else ""
            cells.append(f"{row['peak_rss_mb']:.0f}, {sizes}" if row else NONE)
        ratios = [bold(cold[key]) if cold[key] else NONE for key in ("rss_ratio", "size_ratio")]
        rows.append([name, *cells, *ratios])
    return rows


def notes(results: Results) -> Iterator[tuple[str, str]]:
    """Yield (network, which engine is missing from its rows and why)."""
    for name, network in results["networks"].items():
        seen = set()
        parts = [network, *network["latency"].values(), network.get("cold", {})]
        for part in parts:
            for engine, why in (part.get("failed") or part.get("excluded") or {}).items():
                line = f"{KINDS[engine].label} is left out: {why}"
                if line not in seen:
                    seen.add(line)
                    yield name, line


def summary(results: Results) -> str:
    """Say for each setting on which networks we are ahead of the best peer, and on which behind."""
    lines = []
    for key in settings(results["networks"]):
        ratios = {n: w["latency"][key]["ratio"] for n, w in results["networks"].items() if key in w["latency"]}
        known = {name: ratio for name, ratio in ratios.items() if ratio}
        ahead = [f"{name} ({ratio:.2f})" for name, ratio in known.items() if ratio >= 1]
        behind = [f"{name} ({ratio:.2f})" for name, ratio in known.items() if ratio < 1]
        lines.append(
            f"- {title(key)}: ahead of the best peer on {', '.join(ahead) or 'none'}; "
            f"behind it on {', '.join(behind) or 'none'}."
        )
    return "\n".join(lines)


def page(machines: Sequence[Results], batch16: Results, minilm: Results, untuned: Results) -> str:
    """Return docs/benchmarks.md, with the times of the first of ``machines`` and the ratios of all."""
    results = machines[0]
    parts = [
        "# Benchmarks",
        "<!-- Written by `python -m benchmarks.report` from benchmarks/results/. -->",
        "Every network runs in float32 with batch 1, with the same weights and inputs for every engine. A ratio is the "
        "best peer's median divided by ours: above 1 coldforge is faster, below 1 it is slower. *Aim* is the ratio "
        "that this project set itself. [The whole function](benchmarks-function.md) and the "
        "[accuracy of smaller weights](accuracy.md) have pages of their own.",
        f"On {_machine(results)}:\n\n{summary(results)}",
        "## Machines side by side",
        side_by_side(machines),
        "## Time of one answer",
        f"On {processor(results['machine'])}. Times are the median of a run over all rounds, in ms. Behind each ratio "
        "are its tenth and ninetieth percentile over the rounds.",
        *_by_setting(results, "", latency_rows),
        "## With int8",
        INT8_WORDS,
    ]
    for letter, other in _lettered(machines):
        if any("int8" in row for network in other["networks"].values() for row in network["latency"].values()):
            parts += _by_setting(other, f"Int8 on {letter}, ", int8_rows)
    parts += [
        "## 16 inputs in a run",
        f"On {_machine(batch16)}, {batch16['rounds']} rounds. {batch16.get('note', '')}",
        *_by_setting(batch16, "16 inputs, ", latency_rows),
        "## A sentence encoder",
        f"all-MiniLM-L6-v2 for 16, 64 and 256 tokens, one text and 16 of them in a run, on {_machine(minilm)}, "
        f"{minilm['rounds']} rounds.",
        *_by_setting(minilm, "Sentence encoder, ", latency_rows),
        "## Networks that no kernel was tuned on",
        f"Networks of keras.applications and of other kinds, and published .onnx and .tflite files, on "
        f"{_machine(untuned)}, {untuned['rounds']} rounds. Kinds of layers that were slow in them got a "
        "rule, as a residual with fewer channels; no kernel is chosen by their times. "
        f"{untuned.get('note', '')} "
        + "; ".join(f"{title(key)}: {describe_mean(untuned, key)}" for key in settings(untuned["networks"]))
        + ".",
        *_by_setting(untuned, "Untuned, ", latency_rows),
        "## Cold start",
        "A fresh process on one CPU, with the files in the page cache. Each cell is import / load / first answer = "
        "their sum. All are medians in ms. Python's own start is the same for all engines, and only the last "
        "column's ratio includes it.",
        table(cold_rows(results)),
        "## Memory and size",
        "The first number is the peak resident memory of that process in MB, Python included. Then follows what "
        "has to be installed on disk: the engine with the packages that it imports + the model's file, in MB "
        "(1e6 bytes). The last columns are the best peer's figure over ours.",
        table(size_rows(results)),
    ]
    if left_out := [f"- {name}: {note}" for run in (results, batch16, minilm, untuned) for name, note in notes(run)]:
        parts += ["## Left out", "\n".join(left_out)]
    return "\n\n".join([*parts, "## How it was measured", *_method(results)]) + "\n"


def _by_setting(results: Results, head: str, rows: Callable[[Results, str], list[list[str]]]) -> Iterator[str]:
    """Yield a heading and a table for each number of threads. The rows limited to AVX2 stay in the results' file."""
    for key in settings(results["networks"]):
        if "avx2" not in key:
            yield f"### {head}{title(key)}"
            yield table(rows(results, key))


def side_by_side(machines: Sequence[Results]) -> str:
    """Return a line on each machine, and the ratios of all machines by number of threads."""
    parts = [
        "Best peer's median / ours, the tenth and ninetieth percentile of that over the rounds, and who the peer was. "
        "Each column is a run of its own on its machine.",
        "\n".join(_machine_line(letter, results) for letter, results in _lettered(machines)),
    ]
    networks = dict.fromkeys(network for results in machines for network in results["networks"])
    for key in settings(machines[0]["networks"]):
        rows = [["", *(f"{letter}: {wide(results['machine'])}" for letter, results in _lettered(machines))]]
        rows += [[network, *(_ratio_and_peer(results, network, key) for results in machines)] for network in networks]
        parts += [f"### {title(key)} on each machine", table(rows)]
    return "\n\n".join(parts)


def _lettered(machines: Sequence[Results]) -> Iterator[tuple[str, Results]]:
    return ((chr(ord("A") + number), results) for number, results in enumerate(machines))


def _machine(results: Results) -> str:
    return f"{processor(results['machine'])}, {wide(results['machine'])}"


def _machine_line(letter: str, results: Results) -> str:
    machine = results["machine"]
    numbers = "/".join(filter(None, machine["family_model_stepping"]))
    details = [
        f"family, model, stepping {numbers}" if numbers else "",
        f"{machine['cpus']} CPUs",
        f"{results['rounds']} rounds" if "rounds" in results else "",
    ]
    line = f"- **{letter}**: {_machine(results)} ({', '.join(filter(None, details))})."
    return f"{line} {results['note']}" if "note" in results else line


def _ratio_and_peer(results: Results, network: str, key: str) -> str:
    latency = results["networks"].get(network, {}).get("latency", {}).get(key, {})
    return f"{ratio(latency)} {ENGINES[latency['best_peer']].label}" if latency.get("ratio") else NONE


def _method(results: Results) -> Iterator[str]:
    machine, versions = results["machine"], results["versions"]
    yield (
        f"- Machine A: {machine['system']}, Python {machine['python']}.\n"
        f"- Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.\n"
        "- In each round every engine has one turn, of at least three runs and 50 ms. "
        "One run before them does not count. All other engines' processes are stopped during a turn. The order of "
        "the engines moves on by one each round. Each process is pinned to as many CPUs as it has threads. A run that "
        "takes longer than 0.5 s is timed once a turn.\n"
        "- Before it is timed, an engine must answer like TensorFlow on three inputs: no value may be off by more "
        f"than {results['tolerance']:g} of the largest one.\n"
        "- Weights that were not trained are seeded, with BatchNorm statistics of seeded inputs.\n"
        "- On a processor with AVX-512, runs limited to AVX2 are measured, too. They are in the results' files "
        "(benchmarks/results/), with the spread of every engine's time."
    )
    yield "Settings:\n\n" + "\n".join(f"- {label}: {what}" for label, what in results["settings"].items())
    yield "The networks, and how each got to its engines:\n\n" + "\n".join(_conversions(results))


def _conversions(results: Results) -> Iterator[str]:
    for name, network in results["networks"].items():
        by_way: dict[str, list[str]] = {}
        for engine, way in network["how"].items():
            if engine != OURS and engine != "tensorflow_xla":
                by_way.setdefault(way, []).append(KINDS[engine].label)
        ways = "; ".join(f"{', '.join(engines)}: {way}" for way, engines in by_way.items())
        yield f"- **{name}**: {network['what']}, {network['parameters']:,} parameters. {ways}."


def main() -> None:
    if len(sys.argv) > 1:
        results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        name = sys.argv[2] if len(sys.argv) > 2 else f"machines/{machine_name(results['machine'])}"
        write_json(results, RESULTS / f"{name}.json")
    PAGE.write_text(page(read_machines(), *map(read_results, SECONDARY)), encoding="utf-8")


if __name__ == "__main__":
    main()
