"""How long one answer takes, every engine beside every other in the same minutes.

An engine is timed only when it answers like TensorFlow. Then rounds: in each, one engine after the other
has a turn of a few runs while the others are stopped, and the order moves on by one every round. So
whatever else the machine does falls on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.engines import OURS
from benchmarks.models import SAMPLES, Network
from benchmarks.process import EngineFailed, Setting, Worker, quantiles, read_answers, sample_path

TOLERANCE = 1e-4
"""Largest difference from TensorFlow's answer, as a share of that answer's largest value."""

LEAST_RUNS = 3
TURN_SECONDS = 0.05


def measure(
    network: Network, setting: Setting, rounds: int, engines: Sequence[str], shapes: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Milliseconds per engine, and who was left out and why. ``shapes`` are those of the fetches."""
    excluded: dict[str, str] = {}
    agreement: dict[str, float] = {}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for engine in engines:
            try:
                worker = stack.enter_context(Worker(engine, network, setting))
                agreement[engine] = difference(worker, network, engine, shapes)
            except EngineFailed as error:
                excluded[engine] = str(error)
                continue
            if agreement[engine] <= TOLERANCE:
                workers[engine] = worker
            else:
                excluded[engine] = f"wrong: off by {agreement[engine]:.1e} of the largest answer"
                worker.close()
        turns = _rounds(workers, rounds, excluded)
    return {
        "cpus": setting.cpus,
        "engines": {name: _summary(found) | {"difference": agreement[name]} for name, found in turns.items()},
        "excluded": excluded,
        **compare({name: [median(turn) for turn in found] for name, found in turns.items()}),
    }


def difference(worker: Worker, network: Network, engine: str, shapes: Sequence[Sequence[int]]) -> float:
    """The largest difference from TensorFlow over all samples, as ``TOLERANCE`` counts it; NaN counts as infinite."""
    import numpy as np

    worst = 0.0
    for number in range(SAMPLES):
        base = network.folder / "log" / f"{engine}.{number}"
        worker.ask(do="answer", sample=str(sample_path(network, number)), to=str(base))
        with np.load(network.folder / "keras" / f"{number}.npz") as stored:
            expected = [stored[name] for name in stored.files]
        for answer, right in zip(read_answers(base, shapes), expected, strict=True):
            off = float(np.max(np.abs(answer - right)) / np.max(np.abs(right)))
            worst = max(worst, off if off == off else float("inf"))
    return worst


def _rounds(workers: dict[str, Worker], rounds: int, excluded: dict[str, str]) -> dict[str, list[list[float]]]:
    """Milliseconds of every run by engine and round."""
    turns: dict[str, list[list[float]]] = {name: [] for name in workers}
    for worker in workers.values():
        worker.pause()
    for number in range(rounds):
        names = list(turns)
        start = number % max(len(names), 1)
        for name in names[start:] + names[:start]:
            try:
                seconds = workers[name].ask(do="time", least=LEAST_RUNS, budget=TURN_SECONDS)["seconds"]
            except EngineFailed as error:
                excluded[name] = f"failed in round {number + 1}: {error}"
                del turns[name]
                continue
            turns[name].append([1e3 * second for second in seconds])
    return turns


def _summary(turns: list[list[float]]) -> dict[str, Any]:
    """Over the rounds' medians."""
    found = quantiles([median(turn) for turn in turns])
    return {f"{name}_ms": value for name, value in found.items()} | {
        "least_ms": min(median(turn) for turn in turns),
        "rounds": len(turns),
        "runs": sum(len(turn) for turn in turns),
    }


def compare(medians: dict[str, list[float]]) -> dict[str, Any]:
    """The best peer (smallest median) and its time over ours, with the spread of that ratio over the rounds."""
    peers = {name: median(values) for name, values in medians.items() if name != OURS}
    if OURS not in medians or not peers:
        return {"best_peer": None, "ratio": None}
    best = min(peers, key=lambda name: peers[name])
    ratios = quantiles([theirs / ours for theirs, ours in zip(medians[best], medians[OURS], strict=True)])
    return {
        "best_peer": best,
        "ratio": peers[best] / median(medians[OURS]),
        "ratio_p10": ratios["p10"],
        "ratio_p90": ratios["p90"],
    }
