"""The results as a table, as JSON, as a page such as docs/benchmarks.md and as a plot.

``python -m benchmarks.report [RESULTS.json [FOLDER]]`` writes the page and the plot again from the JSON;
without arguments, from the last full run into ``docs/``. docs/benchmarks.md is made of the results of all machines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import held_out, machines
from benchmarks.engines import ENGINES, INT8, KINDS, OURS
from benchmarks.machine import name as processor
from benchmarks.machine import wide
from benchmarks.models import FOLDER, ROOT
from benchmarks.tables import NONE, bold, ms, ratio, settings, table, title

Results = dict[str, Any]
MINILM = "benchmarks-minilm"
"""The page of ``make bench-minilm``."""

INT8_WORDS = f"""\
Weights and activations are bytes, made by each engine's own tools with the same calibration set, and timed in the same
rounds. Behind each median, in ms, is how it answers {held_out.JUDGED} other inputs: the share in which TensorFlow's top
class is its top class, and its error, the root mean square of the differences as a share of how much TensorFlow's
answers themselves differ. Weights that were not trained are harder to round than trained ones. A model with an error
above {held_out.BROKEN:g} is left out. The last columns: the best int8 peer's time over that of our int8, and our
float32's."""


def write_json(results: Results, path: Path) -> None:
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write(results: Results, folder: Path, others: Sequence[Results] = ()) -> None:
    """The page and the plot of ``results`` into ``folder``, with ``others`` of the same networks on other machines."""
    folder.mkdir(parents=True, exist_ok=True)
    from benchmarks.plot import draw

    drawn = draw([results, *others], folder / f"{name(results)}.svg")
    (folder / f"{name(results)}.md").write_text(page(results, drawn, others), encoding="utf-8")


def name(results: Results) -> str:
    """The name, without a suffix, of the page, of the plot and of the JSON in ``docs/``."""
    if page := results.get("page"):
        return str(page)
    return machines.NAME if results.get("batch", 1) == 1 else f"benchmarks-batch{results['batch']}"


def text(results: Results) -> str:
    """What a terminal shows."""
    parts = []
    for key in settings(results["networks"]):
        parts += [title(key), table(latency_rows(results, key)), ""]
        parts += ["p10–p90 over the rounds", table(spread_rows(results, key)), ""]
        if len(rows := int8_rows(results, key)) > 1:
            parts += ["int8: ms (same class as TensorFlow, error)", table(rows), ""]
    if any("cold" in network for network in results["networks"].values()):
        parts += ["Fresh process to first answer: import/load/first = sum, ms, 1 thread", table(cold_rows(results)), ""]
        parts += ["Peak memory and installed size, MB", table(size_rows(results)), ""]
    parts += [f"{name}: {note}" for name, note in notes(results)]
    return "\n".join(parts)


def latency_rows(results: Results, key: str) -> list[list[str]]:
    """Median ms of each engine, the ratio with its spread over the rounds, and the ratio aimed at."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "best peer / ours", "aim"]]
    for name, network in results["networks"].items():
        found = network["latency"].get(key)
        if found is None:
            continue
        cells = [ms(found["engines"].get(engine, {}).get("median_ms")) for engine in ENGINES]
        aim = f"{network['claim'][min(int(key.split('-')[0]), 2) - 1]:g}" if "avx2" not in key else NONE
        rows.append([name, *cells, ratio(found), aim])
    return rows


def spread_rows(results: Results, key: str) -> list[list[str]]:
    """The tenth and the ninetieth percentile of each engine's ms over the rounds."""
    rows = [["", *(kind.label for kind in ENGINES.values())]]
    for name, network in results["networks"].items():
        engines = network["latency"].get(key, {}).get("engines", {})
        found = [engines.get(engine, {}) for engine in ENGINES]
        rows.append([name, *(f"{ms(row['p10_ms'])}–{ms(row['p90_ms'])}" if "p10_ms" in row else NONE for row in found)])
    return rows


def least_rows(results: Results, key: str) -> list[list[str]]:
    """The least ms of each engine over the rounds, and the least of the peers' over ours."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "best peer / ours"]]
    for name, network in results["networks"].items():
        engines = network["latency"].get(key, {}).get("engines", {})
        least = {engine: row["least_ms"] for engine, row in engines.items() if engine in ENGINES}
        peers = [ms for engine, ms in least.items() if engine != OURS]
        found = bold(min(peers) / least[OURS]) if OURS in least and peers else NONE
        rows.append([name, *(ms(least.get(engine)) for engine in ENGINES), found])
    return rows


def int8_rows(results: Results, key: str) -> list[list[str]]:
    """Median ms of each int8 engine, and behind it how often it has TensorFlow's top class, and its error."""
    rows = [["", *(kind.label for kind in INT8.values()), "best peer / ours", "our float32 / ours"]]
    for name, network in results["networks"].items():
        found = network["latency"].get(key, {})
        if "int8" in found:
            cells = [_judged(found["engines"].get(engine)) for engine in INT8]
            gain = found["int8"]["gain"]
            rows.append([name, *cells, ratio(found["int8"]), bold(gain) if gain else NONE])
    return rows


def _has_int8(results: Results) -> bool:
    return any("int8" in one for network in results["networks"].values() for one in network["latency"].values())


def _judged(row: dict[str, Any] | None) -> str:
    if row is None:
        return NONE
    share, error = row["accuracy"]["same_class"], row["accuracy"]["error"]
    return f"{ms(row['median_ms'])} ({NONE if share is None else f'{share:.0%}'}, {error:.3f})"


def cold_rows(results: Results) -> list[list[str]]:
    """Import / load / first answer = their sum; the best peer's over ours, without and with Python's start."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "best peer / ours", "with Python's start"]]
    for name, network in results["networks"].items():
        found = network.get("cold")
        if not found:
            continue
        cells = []
        for engine in ENGINES:
            row = found["engines"].get(engine)
            parts = [row[f"{part}_ms"] for part in ("import", "load", "first")] if row else []
            cells.append(f"{'/'.join(ms(p, 0) for p in parts)} = {row['start_ms']:.0f}" if row else NONE)
        ratios = [bold(found[key]) if found[key] else NONE for key in ("start_ratio", "total_ratio")]
        rows.append([name, *cells, *ratios])
    return rows


def size_rows(results: Results) -> list[list[str]]:
    """Peak resident memory after the first answer, and the bytes of engine + model on disk."""
    rows = [["", *(kind.label for kind in ENGINES.values()), "memory", "size"]]
    for name, network in results["networks"].items():
        found = network.get("cold")
        if not found:
            continue
        cells = []
        for engine in ENGINES:
            row = found["engines"].get(engine)
            sizes = f"{row['engine_bytes'] / 1e6:.0f}+{row['model_bytes'] / 1e6:.1f}" if row else ""
            cells.append(f"{row['peak_rss_mb']:.0f}, {sizes}" if row else NONE)
        ratios = [bold(found[key]) if found[key] else NONE for key in ("rss_ratio", "size_ratio")]
        rows.append([name, *cells, *ratios])
    return rows


def notes(results: Results) -> Iterator[tuple[str, str]]:
    """(network, what is missing from its rows and why)."""
    for name, network in results["networks"].items():
        seen = set()
        places = [network, *network["latency"].values(), network.get("cold", {})]
        for place in places:
            for engine, why in (place.get("failed") or place.get("excluded") or {}).items():
                line = f"{KINDS[engine].label} is left out: {why}"
                if line not in seen:
                    seen.add(line)
                    yield name, line


def summary(results: Results) -> str:
    """In one sentence each: where we are ahead, and where behind, of the best peer."""
    lines = []
    for key in settings(results["networks"]):
        found = {n: w["latency"][key]["ratio"] for n, w in results["networks"].items() if key in w["latency"]}
        known = {name: ratio for name, ratio in found.items() if ratio}
        ahead = [f"{name} ({ratio:.2f})" for name, ratio in known.items() if ratio >= 1]
        behind = [f"{name} ({ratio:.2f})" for name, ratio in known.items() if ratio < 1]
        lines.append(
            f"- {title(key)}: ahead of the best peer on {', '.join(ahead) or 'none'}; "
            f"behind it on {', '.join(behind) or 'none'}."
        )
    return "\n".join(lines)


def page(results: Results, plot: bool, others: Sequence[Results] = ()) -> str:
    """The page of ``name(results)``. ``plot``: whether there is one."""
    machine, versions, batch = results["machine"], results["versions"], results.get("batch", 1)
    long = results.get("long_run_s")
    mixed = any(network.get("batch", batch) != batch for network in results["networks"].values())
    made = "bench-minilm" if name(results) == MINILM else "bench" if batch == 1 else "bench-batch"
    parts = [
        "# A sentence encoder on other engines" if name(results) == MINILM else "# Benchmarks",
        f"<!-- Written by `python -m benchmarks.report` of what `make {made}` measured. -->",
        f"Every network runs in float32 with batch {'1, or the one of its name' if mixed else batch}, with the same "
        "weights and inputs for every engine. A ratio is the best peer's median divided by ours: above 1 coldforge is "
        "faster, below 1 it is slower. *Aim* is the ratio that this project set itself.",
        f"On {processor(machine)}, {wide(machine)}:\n\n{summary(results)}",
    ]
    if plot:
        parts.append(f"![Time of an answer, against the best peer]({name(results)}.svg)")
    if others:
        parts += ["## Machines side by side", machines.side_by_side([results, *others])]
    parts.append(
        "## Time of a run" if mixed else "## Time of one answer" if batch == 1 else f"## Time of {batch} answers"
    )
    parts.append(
        f"On {processor(machine)}. Times are the median of a run over all rounds, in ms. Behind each ratio are its "
        "tenth and ninetieth percentile over the rounds." + _crowded(machine)
    )
    for key in settings(results["networks"]):
        parts += [f"### {title(key)}", table(latency_rows(results, key))]
        parts += ["From the tenth to the ninetieth percentile of the rounds, ms:", table(spread_rows(results, key))]
        if _is_crowded(machine):
            parts += ["The least of all turns, which other programs disturb less:", table(least_rows(results, key))]
    if any(_has_int8(one) for one in (results, *others)):
        parts += ["## With int8", INT8_WORDS]
    for key in settings(results["networks"]) if _has_int8(results) else ():
        parts += [f"### int8, {title(key)}", table(int8_rows(results, key))]
    for letter, other in machines.lettered(others):
        parts.append(f"## Machine {letter}: {processor(other['machine'])}")
        for key in settings(other["networks"]):
            parts += [f"### Machine {letter}, {title(key)}", table(latency_rows(other, key))]
        for key in settings(other["networks"]) if _has_int8(other) else ():
            parts += [f"### Machine {letter}, int8, {title(key)}", table(int8_rows(other, key))]
    if any("cold" in network for network in results["networks"].values()):
        parts += [
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
    left_out = [f"- {name}: {note}" for name, note in notes(results)]
    if left_out:
        parts += ["## Left out", "\n".join(left_out)]
    parts += [
        "## How it was measured",
        f"- Processor: {processor(machine)} (family, model, stepping "
        f"{'/'.join(machine['family_model_stepping'])}), {machine['cpus']} CPUs, "
        f"{', '.join(machine['instruction_sets'])}. {machine['system']}, Python {machine['python']}.\n"
        f"- Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.\n"
        f"- {results['rounds']} rounds. In each round every engine has one turn, of at least three runs and 50 ms. "
        "One run before them does not count. All other engines' processes are stopped during a turn. The order of "
        "the engines moves on by one each round. Each process is pinned to as many CPUs as it has threads.\n"
        + (f"- A run that takes longer than {long:g} s is timed once a turn.\n" if long else "")
        + "- Before it is timed, an engine must answer like TensorFlow on three inputs: no value may be off by more "
        f"than {results['tolerance']:g} of the largest one.\n"
        "- Weights that were not trained are seeded, with BatchNorm statistics of seeded inputs.\n"
        "- On a processor with AVX-512 there are also rows limited to AVX2. OpenVINO and TensorFlow can be limited "
        "to it; ONNX Runtime and LiteRT cannot.",
        "Settings:\n\n" + "\n".join(f"- {label}: {what}" for label, what in results["settings"].items()),
        "The networks, and how each got to its engines:\n\n" + "\n".join(_conversions(results)),
    ]
    return "\n\n".join(parts) + "\n"


def _conversions(results: Results) -> Iterator[str]:
    for name, network in results["networks"].items():
        by_way: dict[str, list[str]] = {}
        for engine, way in network["how"].items():
            if engine != OURS and engine != "tensorflow_xla":
                by_way.setdefault(way, []).append(KINDS[engine].label)
        ways = "; ".join(f"{', '.join(engines)}: {way}" for way, engines in by_way.items())
        yield f"- **{name}**: {network['what']}, {network['parameters']:,} parameters. {ways}."


def _crowded(machine: dict[str, Any]) -> str:
    load = machine["load_average"][0]
    return f" The machine was not idle (load average {load:.1f} at the start)." if _is_crowded(machine) else ""


def _is_crowded(machine: dict[str, Any]) -> bool:
    return bool(machine["load_average"][0] > 0.5)


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "results.json"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs"
    results = json.loads(source.read_text(encoding="utf-8"))
    if name(results) != machines.NAME:
        write_json(results, target / f"{name(results)}.json")
        write(results, target)
        return
    place = machines.place(results, target)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(results, place)
    write(*machines.published(target))


if __name__ == "__main__":
    main()
