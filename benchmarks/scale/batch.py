"""A batch of many items as a queueing model: a Distributed Map, Lambda and S3, each with what it lets through.

Discrete events, and no randomness but the jitter of attempts, which is seeded:

- The map has ``concurrency`` batches at work. A batch's execution starts when Step Functions' token bucket has one.
- Lambda runs it, unless the account's instances are all busy, or new ones come too fast: then it is throttled, and
  tried again after a time drawn as the template's ``JitterStrategy: FULL`` has it, up to ``attempts`` times.
- A new instance starts cold. Then the items are answered, all instances sharing what S3 delivers in a second.
- What is not answered when the function's time is over stays without an answer (``out_of_time``).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.scale.bucket import Bucket

FIRST_WAIT, WAIT_RATE, LONGEST_WAIT = 2.0, 2.0, 60.0
"""Seconds: as the template's state machine waits before it calls again what Lambda turned away."""
ATTEMPTS = 60
"""After the first one, of such a call, in the template."""
RESERVE = 0.2
"""Seconds that the function keeps for writing what it has: ``handler/deadline.py``."""


@dataclass(frozen=True)
class Quotas:
    """``instances``: of Lambda at once; ``burst``: new ones at one moment, and ``burst_rate`` a second after that.

    ``starts``, ``start_rate``: the same for executions of Step Functions. ``reads``: objects of S3 a second.
    """

    instances: int
    burst: float
    burst_rate: float
    starts: float
    start_rate: float
    reads: float


@dataclass(frozen=True)
class Job:
    """``seconds``: of one item on an instance that waits for nobody; ``timeout``: of the function. ``attempts``: after
    the first, where Lambda turns a call away.
    """

    items: int
    per_invocation: int
    seconds: float
    overhead: float
    cold: float
    timeout: float
    concurrency: int
    attempts: int = ATTEMPTS

    @property
    def batches(self) -> int:
        return -(-self.items // self.per_invocation)


@dataclass(frozen=True)
class Outcome:
    """``busy``: seconds of all instances. ``throttled``: calls that Lambda turned away; ``given_up``: batches that were
    turned away each time. ``unanswered``: items of those, and items that there was no time for (``late``).
    ``peak``: instances at once.
    """

    seconds: float
    busy: float
    invocations: int
    throttled: int
    given_up: int
    late: int
    unanswered: int
    peak: int


def simulated(job: Job, quotas: Quotas, seed: int = 0) -> Outcome:
    return _Map(job, quotas, seed).run()


class _Map:
    """``_timed``: what happens at a known second. ``_readers``: batches whose items are being answered, by what all
    instances together must have answered (``_done``, items of each instance) until they are through.
    """

    def __init__(self, job: Job, quotas: Quotas, seed: int) -> None:
        self._job, self._quotas = job, quotas
        self._starts = Bucket(quotas.starts, quotas.start_rate)
        self._burst = Bucket(quotas.burst, quotas.burst_rate)
        self._random = random.Random(seed)
        self._sizes = self._batches()
        self._timed: list[tuple[float, int, str]] = []
        self._readers: list[tuple[float, int]] = []
        self._reading: dict[int, float] = {}  # batch → what must be done when it is through
        self._began: dict[int, float] = {}
        self._items: list[int] = []
        self._attempts: list[int] = []
        self._now = self._done = self._busy = 0.0
        self._instances = self._running = self._peak = 0
        self._throttled = self._given_up = self._late = self._unanswered = self._invocations = 0

    def _batches(self) -> Iterator[int]:
        left = self._job.items
        while left:
            size = min(left, self._job.per_invocation)
            left -= size
            yield size

    def run(self) -> Outcome:
        for _ in range(min(self._job.concurrency, self._job.batches)):
            self._next()
        happens = {"call": self._call, "read": self._read, "cut": self._cut}
        while self._pending():
            rate = self._rate()
            through = self._now + (self._readers[0][0] - self._done) / rate if self._readers else float("inf")
            if self._timed and self._timed[0][0] <= through:
                at, batch, what = heapq.heappop(self._timed)
                self._advance(at, rate)
                happens[what](batch)
            else:
                self._advance(through, rate)
                self._end(heapq.heappop(self._readers)[1])
        return Outcome(
            self._now, self._busy, self._invocations, self._throttled, self._given_up, self._late, self._unanswered,
            self._peak,
        )  # fmt: skip

    def _pending(self) -> bool:
        """Whether anything is left. Takes away what a batch that has ended would still have had."""
        while self._readers and self._readers[0][1] not in self._reading:
            heapq.heappop(self._readers)
        while self._timed and self._timed[0][2] == "cut" and self._timed[0][1] not in self._reading:
            heapq.heappop(self._timed)
        return bool(self._timed or self._readers)

    def _rate(self) -> float:
        """Items a second of each instance that answers."""
        own = 1 / self._job.seconds
        return min(own, self._quotas.reads / len(self._reading)) if self._reading else own

    def _advance(self, at: float, rate: float) -> None:
        if self._reading:
            self._done += (at - self._now) * rate
        self._now = at

    def _at(self, seconds: float, what: str, batch: int) -> None:
        heapq.heappush(self._timed, (seconds, batch, what))

    def _next(self) -> None:
        """Start the execution of one more batch, if there is one."""
        size = next(self._sizes, 0)
        if size:
            self._items.append(size)
            self._attempts.append(0)
            self._at(self._starts.reserve(self._now), "call", len(self._items) - 1)

    def _call(self, batch: int) -> None:
        cold = self._running == self._instances
        if self._running >= self._quotas.instances or (cold and not self._burst.take(self._now)):
            self._throttle(batch)
            return
        self._invocations += 1
        self._instances += cold
        self._running += 1
        self._peak = max(self._peak, self._running)
        self._began[batch] = self._now
        self._at(self._now + self._job.overhead + cold * self._job.cold, "read", batch)
        self._at(self._now + cold * self._job.cold + self._job.timeout - RESERVE, "cut", batch)

    def _throttle(self, batch: int) -> None:
        self._throttled += 1
        if self._attempts[batch] == self._job.attempts:
            self._given_up += 1
            self._unanswered += self._items[batch]
            self._next()
            return
        longest = min(LONGEST_WAIT, FIRST_WAIT * WAIT_RATE ** self._attempts[batch])
        self._attempts[batch] += 1
        self._at(self._now + self._random.uniform(0, longest), "call", batch)

    def _read(self, batch: int) -> None:
        mark = self._done + self._items[batch]
        self._reading[batch] = mark
        heapq.heappush(self._readers, (mark, batch))

    def _cut(self, batch: int) -> None:
        left = math.ceil(self._reading[batch] - self._done - 1e-9)  # one that has begun is no answer
        self._late += left
        self._unanswered += left
        self._end(batch)

    def _end(self, batch: int) -> None:
        del self._reading[batch]
        self._busy += self._now - self._began.pop(batch)
        self._running -= 1
        self._next()
