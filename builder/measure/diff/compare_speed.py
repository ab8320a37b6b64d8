"""Libraries of two bundles timed on this machine in turns, so that a slow moment affects both."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from builder.measure.bench import WARM_UP, Spread, open_call
from builder.measure.diff.bundle_facts import BundleFacts
from builder.measure.machine import cpu_name

MIN_ROUNDS, MAX_ROUNDS = 20, 20_000


@dataclass(frozen=True)
class SpeedComparison:
    """``ratio``: the median over the rounds of the second library's time by the first's; ``low`` and ``high``: between
    which 80 % of the rounds are."""

    cpu: str
    threads: int
    before: Spread
    after: Spread
    ratio: float
    low: float
    high: float


def time_bundles(before: BundleFacts, after: BundleFacts, *, threads: int = 1, seconds: float = 3.0) -> SpeedComparison:
    """Run both for about ``seconds`` together. Raises VerifyError where this machine cannot run one of them."""
    with (
        open_call(before.bundle, before.manifest, threads) as first,
        open_call(after.bundle, after.manifest, threads) as second,
    ):
        calls = (first, second)
        for call in calls * WARM_UP:
            call()
        times: list[tuple[float, float]] = []
        end = time.monotonic() + seconds
        while len(times) < MIN_ROUNDS or (time.monotonic() < end and len(times) < MAX_ROUNDS):
            took = [0.0, 0.0]
            for which in (0, 1) if len(times) % 2 else (1, 0):  # the first one finds the other's data in the caches
                begin = time.perf_counter()
                calls[which]()
                took[which] = (time.perf_counter() - begin) * 1000
            times.append((took[0], took[1]))
    old, new = zip(*times, strict=True)
    low, ratio, high = (float(v) for v in np.percentile(np.divide(new, old), (10, 50, 90)))
    return SpeedComparison(cpu_name(), threads, Spread.from_times(old), Spread.from_times(new), ratio, low, high=high)
