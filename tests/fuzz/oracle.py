"""What an input may take: time and memory, held against what the function's own budget said of it.

The processor's time, so that a busy machine finds no more than an idle one, and the peak of resident memory, which
Linux counts from anew for each input. ``FLOOR`` is for what no budget is asked about: a refusal.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from handler.budget import FILE_SECONDS, FileCost, RequestLimits

T = TypeVar("T")

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)
INPUT_BYTES = 8
"""Copies of the input, parsed or decoded from base64, beside what the budget knows of."""


@dataclass(frozen=True)
class Spent:
    """``seconds`` of the processor, ``bytes`` of memory at once."""

    seconds: float
    bytes: int


FLOOR = Spent(1.0, 64 << 20)
"""A refusal takes up to 0.2 s; five times that under atheris, whose instrumented Python is slow."""
BODY_BYTE = 300e-9
"""Seconds for a byte of a body, which is parsed whatever it asks for, and of an answer: under atheris, too."""
TIMES, TIMES_BYTES = 2.0, 1.5
"""How far an estimate may be off."""


class OverspentError(AssertionError):
    """An input took more than it may. ``spent``: how much."""

    def __init__(self, message: str, spent: Spent) -> None:
        super().__init__(message)
        self.spent = spent


class AskedLimits(RequestLimits):
    """Limits that remember the costs they were asked about, most of which they refuse. ``asked`` begins with none."""

    asked: list[FileCost]

    @classmethod
    def of(cls, limits: RequestLimits) -> AskedLimits:
        made = cls(*limits)
        made.asked = []
        return made

    def require_cost(self, cost: FileCost, seconds: float) -> None:
        super().require_cost(cost, seconds)
        self.asked.append(cost)

    def require_memory(self, bytes_needed: int) -> None:
        super().require_memory(bytes_needed)
        self.asked.append(FileCost(bytes_needed, 0))


def allowed(limits: AskedLimits, size: int, floor: Spent = FLOOR) -> Spent:
    """What an input of ``size`` bytes may take, after ``limits`` were asked about it."""
    seconds = sum(cost.share for cost in limits.asked) * FILE_SECONDS
    most = max((cost.bytes for cost in limits.asked), default=0)
    return Spent(floor.seconds + TIMES * seconds, int(floor.bytes + TIMES_BYTES * most + INPUT_BYTES * size))


def held(
    call: Callable[[], int | None], limits: AskedLimits, size: int, floor: Spent = FLOOR, byte_seconds: float = 0
) -> Spent:
    """What ``call``, about an input of ``size`` bytes, took. It gives the bytes of an answer, if there is one.

    ``byte_seconds``: for each byte of both. Raises OverspentError, and as ``call`` does.
    """
    limits.asked.clear()
    spent, answered = measured(call)
    most = allowed(limits, size, floor)
    seconds = most.seconds + byte_seconds * (size + (answered or 0))
    if spent.seconds > seconds or spent.bytes > most.bytes:
        raise OverspentError(
            f"an input of {size:,} bytes took {spent.seconds:.2f} s and {spent.bytes / 1e6:,.0f} MB; the budget allows "
            f"{seconds:.2f} s and {most.bytes / 1e6:,.0f} MB",
            spent,
        )
    return spent


def measured(call: Callable[[], T]) -> tuple[Spent, T]:
    """What ``call`` takes and gives. Raises as it does."""
    gc.collect()  # what earlier calls left would be given back while this one is measured, and hide as much
    CLEAR_REFS.write_text(RESET_PEAK)
    before, start = _memory("VmRSS"), time.process_time()
    given = call()
    seconds = time.process_time() - start
    return Spent(seconds, max(_memory("VmHWM") - before, 0)), given


def _memory(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10
