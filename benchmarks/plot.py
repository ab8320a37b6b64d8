"""One picture: how far ahead or behind of the best peer, network by network, and what a cold start takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import ENGINES
from benchmarks.machine import name, wide

_COLOURS = ("#1b6ca8", "#e08a1e", "#5a9e6f", "#a05195", "#888888", "#bbbbbb")


def drawing() -> Any:
    """matplotlib's pyplot, which writes the same SVG for the same figure; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "coldforge"
    from matplotlib import pyplot

    return pyplot


def draw(every: Sequence[dict[str, Any]], path: Path) -> bool:
    """Write an SVG, the same bytes for the same results of each machine; False when matplotlib is not installed.

    One picture of ratios for each machine, and one of cold starts on the first.
    """
    pyplot = drawing()
    if pyplot is None:
        return False
    cold = any("cold" in network for network in every[0]["networks"].values())
    count, height = len(every) + cold, 1.6 + 0.62 * max(len(results["networks"]) for results in every)
    figure, axes = pyplot.subplots(1, count, figsize=(6.2 * count, height), squeeze=False)
    for axis, results in zip(axes[0], every, strict=False):
        _ratios(axis, results)
    if cold:
        _starts(axes[0][-1], every[0])
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True


def _ratios(axis: Any, results: dict[str, Any]) -> None:
    """Bars from 1: to the right where the best peer is slower than we are; a tick where the aim is."""
    names = list(results["networks"])
    for bar, threads in enumerate(("1", "2")):
        for place, key in enumerate(names):
            network = results["networks"][key]
            found = network["latency"].get(threads, {})
            if not found.get("ratio"):
                continue
            y, ratio, aim = place + (bar - 0.5) * 0.36, found["ratio"], network["claim"][bar]
            axis.barh(y, ratio - 1, 0.32, left=1, color=_COLOURS[bar], label=f"{threads} thread{'s' * bar}")
            if "ratio_p10" in found:
                spread = [[max(ratio - found["ratio_p10"], 0)], [max(found["ratio_p90"] - ratio, 0)]]
                axis.errorbar(ratio, y, xerr=spread, color="black", linewidth=0.8, label="p10–p90 of the rounds")
            axis.plot([aim, aim], [y - 0.16, y + 0.16], color="crimson", linewidth=2, label="aim")
    axis.axvline(1, color="black", linewidth=1)
    axis.set_xscale("log")
    ticks = [0.05, 0.1, 0.25, 0.5, 1, 2, 4]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_title(f"{name(results['machine'])}, {wide(results['machine'])}", fontsize=9)
    _label(axis, names, "best peer's time / ours (right of 1: we are faster)")


def _starts(axis: Any, results: dict[str, Any]) -> None:
    names = list(results["networks"])
    for place, key in enumerate(names):
        rows = results["networks"][key].get("cold", {}).get("engines", {})
        for number, (engine, kind) in enumerate(ENGINES.items()):
            if engine in rows:
                y = place + (number - (len(ENGINES) - 1) / 2) * 0.14
                axis.barh(y, rows[engine]["start_ms"], 0.13, color=_COLOURS[number], label=kind.label)
    axis.set_xscale("log")
    _label(axis, names, "import, load and first answer in a fresh process, ms")


def _label(axis: Any, names: list[str], title: str) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel(title)
    axis.grid(axis="x", linewidth=0.3)
    axis.set_axisbelow(True)
    handles, labels = axis.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axis.legend(unique.values(), unique.keys(), fontsize=7, loc="best")
