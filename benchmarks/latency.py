"""The time of one answer, measured for all engines in the same minutes.

An engine is timed only if it answers like TensorFlow, or, with int8, accurately enough to be of use. In each round, one
engine after the other has a turn of a few runs while the others are stopped, and the order moves on by one every round.
So other load on the machine slows down all of them alike.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks import answers as judged
from benchmarks import held_out
from benchmarks.answers import Output, read_answers
from benchmarks.engines import KINDS, OURS, OURS_INT8
from benchmarks.models import SAMPLES, Network
from benchmarks.process import EngineFailed, Setting, Worker, quantiles, sample_path

LEAST_RUNS = 3
TURN_SECONDS = 0.05


def measure(
    network: Network,
    setting: Setting,
    rounds: int,
    engines: Sequence[str],
    outputs: Sequence[Output],
    ours: str = OURS,
) -> dict[str, Any]:
    """Return milliseconds by engine, and the excluded engines with reasons. ``outputs`` are its fetches."""
    excluded: dict[str, str] = {}
    answers: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for engine in engines:
            try:
                worker = stack.enter_context(Worker(engine, network, setting))
                answers[engine], wrong = _judged(worker, network, engine, outputs)
            except EngineFailed as error:
                excluded[engine] = str(error)
                continue
            if wrong:
                excluded[engine] = f"wrong: {wrong}"
                worker.close()
            else:
                workers[engine] = worker
        turns = _rounds(workers, rounds, excluded)
    medians = {name: [median(turn) for turn in own] for name, own in turns.items()}
    figures = {
        "cpus": setting.cpus,
        "engines": {name: _summary(own) | answers[name] for name, own in turns.items()},
        "excluded": excluded,
        **compare({name: values for name, values in medians.items() if not KINDS[name].int8}, ours),
    }
    bytes_ = {name: values for name, values in medians.items() if KINDS[name].int8}
    return figures | ({"int8": compare_int8(bytes_, medians.get(OURS))} if bytes_ else {})


def _judged(worker: Worker, network: Network, engine: str, outputs: Sequence[Output]) -> tuple[dict[str, Any], str]:
    """Return the figures of an engine's answers for its row, and their fault, empty if they are right."""
    if KINDS[engine].int8:
        judgement = held_out.accuracy(worker, network, outputs)
        off = f"the error is {judgement['error']:.0%} of the answers' own deviation"
        return {"accuracy": judgement}, "" if judgement["error"] <= held_out.BROKEN else off
    off_by = difference(worker, network, outputs)
    return {"difference": off_by}, "" if off_by <= network.tolerance else f"off by {off_by:.1e} of the largest answer"


def difference(worker: Worker, network: Network, outputs: Sequence[Output]) -> float:
    """Return the largest difference over all samples, as ``Network.tolerance`` is; NaN is infinite."""
    worst = 0.0
    for number in range(SAMPLES):
        sample = sample_path(network, number)
        right = read_answers(sample.with_suffix(".out").read_bytes(), outputs)
        worst = max(worst, *map(judged.difference, worker.answer(sample, outputs), right))
    return worst


def _rounds(workers: dict[str, Worker], rounds: int, excluded: dict[str, str]) -> dict[str, list[list[float]]]:
    """Return the milliseconds of every run by engine and round; an engine that fails moves to ``excluded``."""
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
    """Summarise the medians of the rounds."""
    spread = quantiles([median(turn) for turn in turns])
    return {f"{name}_ms": value for name, value in spread.items()} | {
        "least_ms": min(median(turn) for turn in turns),
        "rounds": len(turns),
        "runs": sum(len(turn) for turn in turns),
    }


def compare(medians: dict[str, list[float]], ours: str = OURS) -> dict[str, Any]:
    """Return the best peer (smallest median) and its time over that of ``ours``, with the ratio's spread."""
    peers = {name: median(values) for name, values in medians.items() if not name.startswith(OURS)}
    if ours not in medians or not peers:
        return {"best_peer": None, "ratio": None}
    best = min(peers, key=lambda name: peers[name])
    ratios = quantiles(list(map(operator.truediv, medians[best], medians[ours])))
    return {
        "best_peer": best,
        "ratio": peers[best] / median(medians[ours]),
        "ratio_p10": ratios["p10"],
        "ratio_p90": ratios["p90"],
    }


def compare_int8(medians: dict[str, list[float]], float32: list[float] | None) -> dict[str, Any]:
    """Compare int8 engines. ``gain`` is our float32's time over our int8's, None if one is missing."""
    ours = medians.get(OURS_INT8)
    return compare(medians, OURS_INT8) | {"gain": median(float32) / median(ours) if float32 and ours else None}
