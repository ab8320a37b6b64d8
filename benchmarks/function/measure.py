"""Fresh starts of the functions, which take turns, in Lambda's emulator, on one CPU and from the page cache."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.function.functions import EMOTION, OURS, Function
from benchmarks.process import quantiles
from builder.base.errors import EnvironmentSetupError
from builder.base.lambda_python import PythonInterpreter
from builder.measure.local.emulator import LambdaEmulator

WARM = 20  # requests
TOLERANCE = 1e-3  # of a probability, or of a number of a vector of length 1
PARTS = ("init_ms", "own_init_ms", "init_cpu_ms", "first_ms", "answer_ms", "warm_ms", "peak_rss_mb")
RATIOS = (*PARTS, "unzipped_bytes")


class FunctionFailed(Exception):
    """The error of a function that does not start, or answers wrongly; the message says why."""


@contextmanager
def one_cpu() -> Iterator[None]:
    """Limit this process and those that it starts to one CPU, as a function of 1,769 MB has; it is the last allowed."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def measure(
    functions: Mapping[str, Function],
    event: dict[str, Any],
    starts: int,
    python: PythonInterpreter,
    say: Callable[[str], None],
    peers: Sequence[str] = EMOTION.peers,
) -> dict[str, Any]:
    """Return medians and spread over ``starts`` fresh starts of each function, after one whose answer is checked.

    Times in ms: ``init`` is the emulator's, from Python's start until the function is ready; ``own_init`` is the same
    without the median start of a bare Python in this run; ``init_cpu`` is the processor's time for it in a process
    without the emulator, which other programs disturb less; ``answer`` is a client's wait on a cold start, and
    ``first`` the same without init; ``warm`` is the median of later requests.
    """
    excluded: dict[str, str] = {}
    labels: dict[str, dict[str, float]] = {}
    for name in functions:
        try:
            labels[name] = _check(functions[name], event, None if functions[name].other_model else labels.get(OURS))
        except FunctionFailed as error:
            excluded[name] = str(error)
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in functions if name not in excluded}
    bare = []
    for turn in range(starts):
        say(f"start {turn + 1} of {starts}")
        bare.append(_bare(python.path))
        names = list(measured)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            measured[name].append(_start(functions[name], event))
    start = quantiles(bare)["median"]
    rows = {name: _row(samples, functions[name].sizes, start) for name, samples in measured.items()}
    return {
        "starts": starts,
        "python_start_ms": quantiles(bare),
        "functions": rows,
        "excluded": excluded,
        "ratios": compare(rows, peers),
    }


def compare(rows: Mapping[str, dict[str, Any]], peers: Sequence[str] = EMOTION.peers) -> dict[str, float | None]:
    """Return the best peer's figures over ours."""
    theirs = [rows[name] for name in peers if name in rows]
    if not theirs or OURS not in rows:
        return dict.fromkeys(RATIOS)
    return {part: min(_figure(part, row) for row in theirs) / _figure(part, rows[OURS]) for part in RATIOS}


def _figure(part: str, row: Mapping[str, Any]) -> float:
    """Return the median of a figure; for CPU time, which other programs only lengthen, the least value."""
    value = row[part]
    return float(value["least" if part == "init_cpu_ms" else "median"] if isinstance(value, Mapping) else value)


def _row(samples: list[dict[str, float]], sizes: dict[str, int], python_start: float) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for part in PARTS:
        source, less = ("init_ms", python_start) if part == "own_init_ms" else (part, 0.0)
        row[part] = quantiles([sample[source] - less for sample in samples])
        row[part] = {**row[part], "least": min(sample[source] - less for sample in samples)}
    return row | {"unzipped_bytes": sum(sizes.values()), "sizes": sizes}


def _start(function: Function, event: dict[str, Any]) -> dict[str, float]:
    with function.emulator as running:
        begin = time.perf_counter()
        answer = running.invoke(event)
        answered = (time.perf_counter() - begin) * 1000
        if not isinstance(answer, dict) or "errorType" in answer:
            raise EnvironmentSetupError(
                f"a function that had started before does not now: {answer}\n{running.log[-500:]}"
            )
        warm = []
        for _ in range(WARM):
            begin = time.perf_counter()
            running.invoke(event)
            warm.append((time.perf_counter() - begin) * 1000)
        return {
            "init_ms": running.init_ms,
            "init_cpu_ms": init_cpu(function.emulator)["all"],
            "answer_ms": answered,
            "first_ms": max(answered - running.init_ms, 0.0),
            "warm_ms": quantiles(warm)["median"],
            "peak_rss_mb": running.peak_rss / 2**20,
        }


def init_cpu(function: LambdaEmulator) -> dict[str, float]:
    """Return the CPU ms, after Python's start, in which a fresh process imports what Lambda's does; no request.

    ``all``: runtime client and function; ``function``: the function alone.
    """
    module = function.handler.rpartition(".")[0]
    code = (
        "from time import process_time as now; a = now(); import awslambdaric.bootstrap; b = now(); "
        f"import {module}; c = now(); print(c - a, c - b)"
    )
    command = [function.python.path, "-S", "-c", code]
    environment = function.make_environment("/nonexistent")
    done = subprocess.run(command, cwd=function.function, env=environment, capture_output=True, text=True, check=True)
    everything, alone = done.stdout.split()[-2:]
    return {"all": float(everything) * 1000, "function": float(alone) * 1000}


def _check(function: Function, event: dict[str, Any], ours: dict[str, float] | None) -> dict[str, float]:
    """Start it once, which also reads its files and writes missing bytecode; returns the answer by label or index."""
    try:
        with function.emulator as running:
            answer = running.invoke(event)
            if isinstance(answer, dict) and answer.get("ok"):
                return {}
            if not isinstance(answer, dict) or "predictions" not in answer or math.isnan(running.init_ms):
                raise FunctionFailed(" ".join(f"{answer} {running.log[-400:]}".split()))
    except EnvironmentSetupError as error:
        raise FunctionFailed(" ".join(str(error).split())[:500]) from error
    return check_answer(answer, ours)


def check_answer(answer: dict[str, Any], ours: dict[str, float] | None) -> dict[str, float]:
    """Return the probabilities of ``answer`` by label, or the numbers of its vector by index.

    Raises FunctionFailed if they differ from those of ``ours``.
    """
    (output,) = answer["predictions"][0].values()
    if isinstance(output[0], float):
        values = {str(place): number for place, number in enumerate(output)}
    else:
        values = {row["label"]: row["probability"] for row in output}
    for label, value in (ours or {}).items():
        if not abs(values.get(label, math.inf) - value) <= TOLERANCE:
            raise FunctionFailed(f"answers {label} with {values.get(label)}, ours with {value}")
    return values


def _bare(python: Path) -> float:
    """Return the ms of a Python that starts as the function's does, and ends."""
    begin = time.perf_counter()
    subprocess.run([python, "-S", "-c", "pass"], check=True, env={"PATH": "/usr/bin:/bin"})
    return (time.perf_counter() - begin) * 1000
