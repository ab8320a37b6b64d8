"""A queue that gets more messages than usual, second by second: how far it falls behind, and when it has caught up.

Lambda begins with a few batches at once and adds more each minute, up to a bound. No message is lost before the queue's
retention is over; it waits.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 30 * 24 * 3600


@dataclass(frozen=True)
class Pace:
    """``seconds``: of a batch of ``batch`` messages. ``first``: batches at once in the beginning; ``more``: that a
    minute adds; ``most``: at once, at most.
    """

    seconds: float
    batch: int
    first: int
    more: float
    most: int

    @property
    def per_second(self) -> float:
        """Messages a second of all that may be at work."""
        return self.most * self.batch / self.seconds


@dataclass(frozen=True)
class Surge:
    """``usual`` messages a second; ``times`` as many for ``seconds``, from second 0 on."""

    usual: float
    times: float
    seconds: int


@dataclass(frozen=True)
class Backlog:
    """``messages``: that waited at once, at most; ``wait``: the longest of one, seconds; ``behind``: seconds from the
    end of the surge until nothing waits, None where that takes a month; ``busy``: instances at once, at most.
    """

    messages: int
    wait: float
    behind: int | None
    busy: int


def surged(surge: Surge, pace: Pace) -> Backlog:
    """First come, first served. The queue is empty, and Lambda works as much as the usual messages need."""
    each = pace.batch / pace.seconds
    workers = min(float(pace.most), max(pace.first, surge.usual / each))
    waiting = worst = longest = 0.0
    busy = 0
    for second in range(LONGEST):
        arriving = surge.usual * (surge.times if second < surge.seconds else 1)
        worked = min(waiting + arriving, workers * each)
        busy = max(busy, min(pace.most, -int(-worked // each)))
        waiting += arriving - worked
        worst = max(worst, waiting)
        longest = max(longest, waiting / (workers * each))
        if waiting > 0:
            workers = min(float(pace.most), workers + pace.more / 60)
        elif second >= surge.seconds:
            return Backlog(round(worst), longest, second - surge.seconds, busy)
        if second >= surge.seconds and workers == pace.most and surge.usual >= pace.per_second:
            break
    return Backlog(round(worst), longest, None, busy)


def seconds_until_loss(surge: Surge, pace: Pace, retention: float) -> float | None:
    """How long the surge may last until a message is older than ``retention`` seconds; None where none ever is."""
    arriving = surge.usual * surge.times
    if arriving <= pace.per_second:
        return None
    # The message that leaves after t seconds came when as many had arrived as have left: t × worked / arriving ago.
    return retention / (1 - pace.per_second / arriving)
