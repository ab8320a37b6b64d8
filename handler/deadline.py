"""The decision when to stop, so that Lambda does not end the function in the middle of an answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from .errors import OutOfTimeError

RESERVE_MS = 200.0
"""Time kept for writing the answer and the log."""
CAUTION = 1.5
"""The factor by which the next item may take longer than the slowest so far."""


def seconds_left(remaining_ms: float) -> float:
    """Return the seconds of the function's time left, without the reserve."""
    return (remaining_ms - RESERVE_MS) / 1000


def require_time(seconds_left: Callable[[], float]) -> None:
    """Raise OutOfTimeError where no time is left for the next step over texts."""
    if seconds_left() <= 0:
        raise OutOfTimeError("the function ran out of time; send fewer or shorter texts at a time")


def no_deadline() -> float:
    """Return infinity, the seconds left to a caller without a deadline."""
    return math.inf


class Deadline:
    """A check before each of several items that there is time for one more."""

    def __init__(self, remaining_ms: Callable[[], int]) -> None:
        self._remaining_ms = remaining_ms
        self._slowest = 0.0
        self._began: float | None = None

    def allows_another(self) -> bool:
        """Return whether the next item may begin, now that the previous one has ended."""
        now = time.perf_counter()
        if self._began is not None:
            self._slowest = max(self._slowest, (now - self._began) * 1000)
        self._began = now
        return self._remaining_ms() > self._slowest * CAUTION + RESERVE_MS
