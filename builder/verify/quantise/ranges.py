"""The best range for a layer's input in bytes: that with the least mean squared error, from a histogram.

A narrower range has finer steps and cuts off numbers outside it. Both errors are estimated for many ranges: inside,
numbers are anywhere between two steps, which is a variance of scale^2 / 12; outside, they are off by their distance to
the end. Zeros do not count, since they are exact in any range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.steps.quantisation import Quantisation

Array = NDArray[np.float32]

BINS = 4096
ENDS = 96
"""Number of values tried for each end."""

LEVELS = 255


@dataclass
class Extent:
    """The least and the greatest number so far, including 0; ``finite``: whether all were finite."""

    low: float = 0.0
    high: float = 0.0
    finite: bool = True

    def add(self, values: Array) -> None:
        low, high = float(values.min(initial=0)), float(values.max(initial=0))
        if not np.isfinite(low) or not np.isfinite(high):
            self.finite = False
            return
        self.low, self.high = min(self.low, low), max(self.high, high)


class Histogram:
    """Count of numbers in each of ``BINS`` equal parts of ``extent``, without zeros."""

    def __init__(self, extent: Extent) -> None:
        self.low, self.high = extent.low, extent.high
        self.counts = np.zeros(BINS, np.int64)

    def add(self, values: Array) -> None:
        flat = np.ravel(values).astype(np.float64)
        flat = flat[flat != 0]
        places = ((flat - self.low) * (BINS / (self.high - self.low))).astype(np.int64)
        self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)

    @property
    def centres(self) -> NDArray[np.float64]:
        return self.low + (np.arange(BINS) + 0.5) * (self.high - self.low) / BINS


def best_range(histogram: Histogram) -> tuple[float, float]:
    """Return the (low, high) with the least mean squared error, each between 0 and the end of the extent."""
    counts, centres = histogram.counts.astype(np.float64), histogram.centres
    shares = np.arange(1, ENDS + 1) / ENDS
    lows = histogram.low * shares if histogram.low < 0 else np.zeros(1)
    highs = histogram.high * shares if histogram.high > 0 else np.zeros(1)
    below = [_measure_clipping(counts, low - centres) for low in lows]
    above = [_measure_clipping(counts, centres - high) for high in highs]
    cut = np.array([error for error, _ in below])[:, None] + np.array([error for error, _ in above])
    inside_count = counts.sum() - np.array([n for _, n in below])[:, None] - np.array([n for _, n in above])
    scale = (highs - lows[:, None]) / LEVELS
    errors = cut + inside_count * scale**2 / 12
    i, j = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return float(lows[i]), float(highs[j])


def _measure_clipping(counts: NDArray[np.float64], distances: NDArray[np.float64]) -> tuple[float, float]:
    """Return the squared error of the numbers beyond an end, and their count."""
    outside = distances > 0
    return float((counts[outside] * distances[outside] ** 2).sum()), float(counts[outside].sum())


def make_quantisation(low: float, high: float) -> Quantisation:
    """Return scale and zero for a range from ``low`` <= 0 to ``high`` >= 0, not both 0; 0.0 is exactly a step."""
    scale = float(np.float32((high - low) / LEVELS))
    return Quantisation(scale, int(np.clip(np.rint(-low / scale), 0, LEVELS)))
