"""Processor time by a clock that moves at the kernel's ticks alone, of runs whose time is known: it is simulated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from benchmarks import clock

TICK = 1 / 2048  # seconds: sums of them are exact
SHORT = 22e-6


class Machine:
    """Its time passes while it works, and a little with each look at a clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def works(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds

        return run

    def fine(self) -> float:
        self.now += 50e-9
        return self.now

    def ticking(self) -> float:
        """As a kernel without a finer clock tells it."""
        return math.floor(self.fine() / TICK) * TICK

    def stopping(self) -> float:
        """It stands for 4 of every 100 ms, and catches up."""
        now = self.fine()
        return now - now % 0.1 if now % 0.1 < 0.004 else now


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_single_runs_take_no_time_by_such_a_clock(machine: Machine) -> None:
    """What the least of single runs came to: the fault that blocks of runs are for."""
    assert min(clock.seconds(machine.works(SHORT), 1, machine.ticking) for _ in range(50)) == 0


def test_a_step_is_that_of_the_clock(machine: Machine) -> None:
    assert clock.step(machine.ticking) == TICK
    assert clock.step(machine.fine) == pytest.approx(50e-9)
    assert clock.step(time.thread_time) > 0


def test_a_block_is_long_beside_a_step(machine: Machine) -> None:
    least = TICK / clock.SHARE
    assert least <= clock.runs_for(machine.works(SHORT), machine.ticking, least) * SHORT + TICK < 2 * least + TICK
    assert clock.runs_for(machine.works(0.001), machine.fine, 0.0005) == 1


def test_short_runs_have_the_time_that_they_take(machine: Machine) -> None:
    runs = {"short": machine.works(SHORT), "three": machine.works(3 * SHORT)}
    found, rounds = clock.processor_time(runs, 0.0, machine.ticking)
    assert rounds == clock.LEAST_ROUNDS
    assert found == pytest.approx({"short": SHORT, "three": 3 * SHORT}, rel=2 * clock.SHARE)


def test_a_clock_that_stops_now_and_then_makes_no_run_faster(machine: Machine) -> None:
    run = machine.works(SHORT)
    assert min(clock.seconds(run, 1, machine.stopping) for _ in range(10_000)) == 0
    found, rounds = clock.processor_time({"short": run}, 0.1, machine.stopping)
    assert rounds > clock.LEAST_ROUNDS
    assert found["short"] == pytest.approx(SHORT, rel=2 * clock.SHARE)


def test_this_machines_clock_tells_the_time_of_real_work() -> None:
    found, _ = clock.processor_time({"short": lambda: sum(range(2_000))}, 0.0)
    assert found["short"] > 0


def test_a_clock_that_stands_still_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "PATIENCE", 0.01)
    with pytest.raises(clock.ClockStandsStill, match="0 times"):
        clock.processor_time({"short": lambda: None}, 0.0, lambda: 5.0)
