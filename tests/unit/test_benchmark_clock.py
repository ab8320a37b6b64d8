"""Processor time by a clock that moves at the kernel's ticks alone."""

from __future__ import annotations

import math
import time

import pytest

from benchmarks import clock

TICK = 1 / 2048  # seconds: sums of them are exact


def ticking() -> float:
    """This thread's time, as a kernel without a finer clock of it tells it."""
    return math.floor(time.thread_time() / TICK) * TICK


def short() -> int:
    return sum(range(2_000))


def test_single_runs_take_no_time_by_such_a_clock() -> None:
    """What the least of single runs came to: the fault that blocks of runs are for."""
    assert min(clock.seconds(short, 1, ticking) for _ in range(50)) == 0


def test_a_step_is_that_of_the_clock() -> None:
    assert clock.step(ticking) == TICK
    assert 0 < clock.step(time.thread_time) < TICK


def test_a_block_is_long_beside_a_step() -> None:
    least = TICK / clock.SHARE
    assert clock.runs_for(short, ticking, least) * clock.seconds(short, 64, time.thread_time) > 0.5 * least
    assert clock.runs_for(lambda: time.sleep(0.001), time.monotonic, 0.0005) == 1


def test_short_runs_have_the_time_that_a_finer_clock_tells() -> None:
    runs = {"short": short, "three": lambda: (short(), short(), short())}
    coarse, rounds = clock.processor_time(runs, 0.0, ticking)
    fine, _ = clock.processor_time(runs, 0.5)
    assert rounds == clock.LEAST_ROUNDS
    assert 1.5 * coarse["short"] < coarse["three"]
    assert fine == pytest.approx(coarse, rel=0.5)  # of other moments, on a busy machine


def test_a_clock_that_stops_now_and_then_makes_no_run_faster() -> None:
    """It stands for 4 of every 100 ms, and catches up."""

    def stopping() -> float:
        now = time.thread_time()
        return now - now % 0.1 if now % 0.1 < 0.004 else now

    runs = {"short": short}
    assert min(clock.seconds(short, 1, stopping) for _ in range(10_000)) == 0
    (by_stopping, _), (by_fine, _) = clock.processor_time(runs, 0.5, stopping), clock.processor_time(runs, 0.5)
    assert by_stopping["short"] > by_fine["short"] / 4  # of another moment, on a busy machine


def test_a_clock_that_stands_still_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "PATIENCE", 0.01)
    with pytest.raises(clock.ClockStandsStill, match="0 times"):
        clock.processor_time({"short": short}, 0.0, lambda: 5.0)
