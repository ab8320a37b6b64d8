"""The processor time of a run, by a clock that may stand still for milliseconds.

A kernel may move a thread's clock of processor time (``CLOCK_THREAD_CPUTIME_ID``) at its ticks alone, whatever
resolution it claims: every 1, 4 or 10 ms. A run of 4 µs then takes nothing at all or a whole tick, and the least of
many is 0. So the clock's steps are measured, and as many runs are timed at once as make a step negligible. A virtual
machine's clock may also stop now and then and catch up later: the least of thousands of rounds would be one of those
moments, so the tenth percentile counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

from benchmarks.process import quantiles

Run = Callable[[], object]
Clock = Callable[[], float]
"""Seconds since whenever."""

SHARE = 0.01  # of a block of runs, that one step of the clock may be
STEPS = 9
PATIENCE = 2.0  # seconds of wall clock
LEAST_ROUNDS = 5


class ClockStandsStill(Exception):
    """The clock did not move while this thread worked."""


def step(clock: Clock) -> float:
    """Seconds by which ``clock`` moves at once, or what reading it takes where that is more: the median of some steps.

    Raises ClockStandsStill.
    """
    end, before, found = time.monotonic() + PATIENCE, clock(), []
    while len(found) < STEPS:
        now = clock()
        if now > before:
            found.append(now - before)
            before = now
        elif time.monotonic() > end:
            raise ClockStandsStill(f"it moved {len(found)} times in {PATIENCE:g} s of work")
    return median(found)


def runs_for(run: Run, clock: Clock, least: float) -> int:
    """How many times ``run`` is called in ``least`` seconds of ``clock``, as a power of two."""
    count = 1
    while count * seconds(run, count, clock) < least:
        count *= 2
    return count


def seconds(run: Run, count: int, clock: Clock) -> float:
    """Of one run, over ``count`` that are timed at once."""
    begin = clock()
    for _ in range(count):
        run()
    return (clock() - begin) / count


def processor_time(
    runs: Mapping[str, Run], budget: float, clock: Clock = time.thread_time
) -> tuple[dict[str, float], int]:
    """Seconds of processor time of one run of each, the tenth percentile over the rounds, and how many those were.

    All work on the calling thread, whose time does not count what others use of the processor. In a round, of which
    there are as many as ``budget`` seconds have, each is called once so that it has its own data in the caches again,
    and then timed. Raises ClockStandsStill.
    """
    least = step(clock) / SHARE
    counts = {name: runs_for(run, clock, least) for name, run in runs.items()}
    found: dict[str, list[float]] = {name: [] for name in runs}
    end, rounds = time.monotonic() + budget, 0
    while rounds < LEAST_ROUNDS or time.monotonic() < end:
        for name, run in runs.items():
            run()
            found[name].append(seconds(run, counts[name], clock))
        rounds += 1
    return {name: quantiles(values)["p10"] for name, values in found.items()}, rounds
