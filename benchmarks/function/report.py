"""The results as a table, as docs/benchmarks-function.md and as a plot.

``python -m benchmarks.function.report [RESULTS.json [FOLDER]]`` writes the page and the plot again from the JSON;
without arguments, from the last full run into ``docs/``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.function.functions import EMPTY, KINDS, OURS, PLACE
from benchmarks.models import ROOT
from benchmarks.report import NONE, table, write_json

Results = dict[str, Any]
PAGE, PLOT = "benchmarks-function.md", "benchmarks-function.svg"
BUDGET_MS, ZIP_LIMIT = 150, 262_144_000
_COLOURS = ("#1b6ca8", "#e08a1e", "#5a9e6f")
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


def text(results: Results) -> str:
    """What a terminal shows."""
    return "\n".join(
        [
            f"Medians of {results['starts']} fresh starts, ms (tenth–ninetieth percentile)",
            table(rows(results)),
            "",
            budget(results),
            "",
            "What ours imports at init, ms (-X importtime)",
            table(import_rows(results)),
            *(f"{KINDS[name].label} is left out: {why}" for name, why in results["excluded"].items()),
        ]
    )


def rows(results: Results) -> list[list[str]]:
    """One row for each function, and the best peer's median over ours."""
    found = [["", *TITLES.values()]]
    for name, kind in KINDS.items():
        row = results["functions"].get(name)
        if row:
            found.append([kind.label, *(_cell(part, row[part]) for part in TITLES)])
    ratios = [f"{value:.2f}" if value else NONE for value in (results["ratios"][part] for part in TITLES)]
    return [*found, ["best peer / ours", *ratios]]


def _cell(part: str, value: Any) -> str:
    if part == "unzipped_bytes":
        return f"{value / 1e6:.1f}{' (over Lambda’s limit)' if value > ZIP_LIMIT else ''}"
    if part == "init_cpu_ms":
        return f"{value['least']:.0f}"
    digits = 1 if value["median"] < 100 else 0
    middle, low, high = (f"{value[key]:.{digits}f}" for key in ("median", "p10", "p90"))
    return f"{middle} ({low}–{high})"


def import_rows(results: Results) -> list[list[str]]:
    lines = [[one["module"], f"{one['cumulative_ms']:.1f}", f"{one['self_ms']:.1f}"] for one in results["imports"]]
    return [["module", "with what it imports", "itself"], *lines]


def budget(results: Results) -> str:
    """One sentence: our init against the budget."""
    ours, empty = results["functions"][OURS], results["functions"][EMPTY]
    init, python = ours["own_init_ms"], results["python_start_ms"]["median"]
    cpu, client = ours["init_cpu_ms"]["least"], empty["init_cpu_ms"]["least"]
    return (
        f"Our function's init takes {init['median']:.0f} ms, at least {init['least']:.0f}, without Python's start "
        f"({python:.0f} ms). The budget is {BUDGET_MS} ms. The processor works {cpu:.0f} ms for it, of which "
        f"{client:.0f} ms are Lambda's runtime client, which every function has."
    )


def page(results: Results, plot: bool) -> str:
    """docs/benchmarks-function.md."""
    machine = results["machine"]
    load = f"{machine['load_average'][0]:.1f} before, {machine['load_average_after'][0]:.1f} after"
    parts = [
        "# The whole function, on other engines",
        "<!-- Generated from build/bench/function/results.json by `python -m benchmarks.function.report`; "
        "`make bench-lambda` measures. -->",
        "This page compares the function as it is deployed, with the *emotion* network, with the same function as "
        "one would write it on other engines. They have the same Powertools set-up, the same picture code and the "
        "same packages beside it. Only the engine's import, load and run differ. The peers' functions have one event "
        "and no protocols; ours has all. Every figure is from AWS's Runtime Interface Emulator. A ratio above 1 says "
        "that ours is ahead of the best peer.",
        budget(results),
    ]
    if plot:
        parts.append(f"![Init, first and warm request of each function]({PLOT})")
    parts += [
        f"The figures are medians of {results['starts']} fresh starts in ms, with the tenth–ninetieth percentile in "
        "brackets:",
        table(rows(results)),
        "- *init*: the time from Python's start until the function takes requests, as the emulator reports it.\n"
        "- *Without Python's start*: init less the median of a bare `python -S -c pass`. It includes the runtime "
        "client, which every function has.\n"
        "- *CPU of that*: the processor's time for the same imports in a process of their own, the least of all "
        "runs. Other programs on the machine disturb it least.\n"
        "- *First request*: what the first caller waits for after init. *Cold, in all*: init and first request. "
        "*Warm*: the median of later requests. All three are measured by a client, through the emulator.\n"
        "- *Peak memory*: of the function's process, after the warm requests.\n"
        "- *Unzipped*: the function with its packages, and for ours the model layer. A peer's packages are its wheel "
        "and everything that the wheel requires, untrimmed. Lambda takes 262 MB.\n"
        f"- *{KINDS[EMPTY].label}* {KINDS[EMPTY].settings}.",
        "## What ours imports at init",
        "Modules are listed by their cumulative time in ms, the least of several processes (`python -X importtime`, "
        "which itself costs time). Modules that the runtime client has already imported are left out.",
        table(import_rows(results)),
    ]
    if results["excluded"]:
        lines = [f"- {KINDS[name].label}: {why}" for name, why in results["excluded"].items()]
        parts += ["## Left out", "\n".join(lines)]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts += [
        "## How it was measured",
        f"- {machine['processor']}, {', '.join(machine['instruction_sets'])}; {machine['system']}. Python "
        f"{machine['function_python']} for every function. Load average {load}.\n"
        f"- Versions: {versions}.\n"
        "- Functions take turns on one CPU, in an order that moves on by one each round. Files are in the page cache, "
        "and bytecode is written. Before it is measured, each function must give our probabilities to within 0.001.",
        "\n".join(f"- {label}: {what}" for label, what in results["settings"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def write(results: Results, folder: Path) -> None:
    """The page and the plot into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = draw(results, folder / PLOT)
    (folder / PAGE).write_text(page(results, drawn), encoding="utf-8")


def draw(results: Results, path: Path) -> bool:
    """Write an SVG, the same bytes for the same results; False when matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "coldforge"
    from matplotlib import pyplot

    names = [name for name in KINDS if name in results["functions"]]
    figure, axis = pyplot.subplots(figsize=(7, 1.2 + 0.7 * len(names)))
    for bar, part in enumerate(("init_ms", "first_ms", "warm_ms")):
        places = [place + (bar - 1) * 0.26 for place in range(len(names))]
        values = [results["functions"][name][part] for name in names]
        spread = [[max(v["median"] - v["p10"], 0) for v in values], [max(v["p90"] - v["median"], 0) for v in values]]
        medians = [v["median"] for v in values]
        axis.barh(places, medians, 0.25, xerr=spread, color=_COLOURS[bar], label=TITLES[part], error_kw={"lw": 0.8})
    axis.set_xscale("log")
    axis.set_yticks(range(len(names)), [KINDS[name].label for name in names])
    axis.invert_yaxis()
    axis.set_xlabel("ms in Lambda's emulator")
    axis.grid(axis="x", linewidth=0.3)
    axis.set_axisbelow(True)
    axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE / "results.json"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs"
    results = json.loads(source.read_text(encoding="utf-8"))
    write(results, target)
    write_json(results, target / "benchmarks-function.json")


if __name__ == "__main__":
    main()
