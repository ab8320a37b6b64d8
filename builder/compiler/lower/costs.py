"""Cost model of a 3x3 layer, by which the rule chooses its algorithm.

A layer's time is about that of its products and, for Winograd, of transforming inputs, products and weights. Each of
these is a count, known from the sizes, times a factor. ``python -m benchmarks.fit`` measures and fits the factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builder.compiler.lower.geometry import PANEL, Algorithm, Geometry


@dataclass(frozen=True)
class CostFactors:
    """Times in multiply-adds of ``direct``: of one multiply-add, and of an input, a sum and a weight at one point."""

    product: float
    input: float = 0.0
    output: float = 0.0
    weight: float = 0.0


FACTORS: Mapping[Algorithm, CostFactors] = {
    "direct": CostFactors(1.0),
    "winograd2": CostFactors(1.21, 12.35, 7.66, 5.13),
    "winograd4": CostFactors(1.25, 24.45, 5.22, 4.5),
}
"""Factors for 81 to 83 geometries with sides of 3 to 28 and 16 to 512 channels, on one thread: the geometric
means of AVX2 and AVX-512, with weights that no cache holds any more. They are the means of two fits of November 2026:

| | winograd2 | winograd4 |
|---|---|---|
| an EPYC (Zen 4) | 1.19, 8.73, 4.74, 5.35 | 1.14, 24.47, 0, 5.53 |
| a Xeon with AMX | 1.23, 15.96, 10.58, 4.91 | 1.35, 24.43, 10.44, 3.48 |

The fit of the EPYC is older than the kernel for few tiles. The choice by the means takes 1.4 % longer than the best, on
average over these geometries on the Xeon, where the EPYC's own took 3.2 %."""


def count_operations(geometry: Geometry, algorithm: Algorithm) -> tuple[int, int, int, int]:
    """Count multiply-adds and transformed inputs, sums and weights of a 3x3 layer of stride 1, as in CostFactors."""
    channels, outer = geometry.in_channels, -(-geometry.out_channels // PANEL) * PANEL
    height, width = geometry.out_size
    if algorithm == "direct":
        return 9 * geometry.batch * height * width * channels * outer, 0, 0, 0
    size = 4 if algorithm == "winograd4" else 2
    points, tiles = (size + 2) ** 2, geometry.batch * -(-height // size) * -(-width // size)
    of_weights = points * channels * outer
    return tiles * of_weights, points * tiles * channels, points * tiles * outer, of_weights


def estimate_cost(geometry: Geometry, algorithm: Algorithm) -> float:
    """Estimate the time of ``algorithm`` for a layer that Winograd can compute, in multiply-adds of ``direct``."""
    factors = FACTORS[algorithm]
    products, inputs, outputs, weights = count_operations(geometry, algorithm)
    return factors.product * products + factors.input * inputs + factors.output * outputs + factors.weight * weights
