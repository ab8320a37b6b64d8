"""The polynomial of the kernels' exponential is as good as can be: the fit that activation.h describes, made again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

SOURCE = Path(__file__).parents[2] / "builder" / "runtime" / "fused" / "activation.h"

HALF = np.log(2) / 2
"""The polynomial is used for |r| up to this."""


def _coefficients() -> NDArray[np.float64]:
    """c2 to c5 of 1 + r + c2 r^2 + c3 r^3 + c4 r^4 + c5 r^5, as float32 holds them."""
    body = SOURCE.read_text().split("INLINE vec exp_in_range")[1].split("return")[0]
    found = re.findall(r"p = (?:p \* r \+ )?splat\(([0-9.e+-]+)f\)", body)
    assert found[4:] == ["1.0", "1.0"]
    return np.array(found[3::-1], np.float32).astype(np.float64)


def _relative_error(coefficients: NDArray[np.float64]) -> float:
    r = np.linspace(-HALF, HALF, 100_001)
    polynomial = 1 + r + sum(c * r**power for power, c in enumerate(coefficients, 2))
    return float(np.abs(polynomial / np.exp(r) - 1).max())


def _minimax() -> NDArray[np.float64]:
    """Lawson's algorithm: least squares, weighted again and again by the error that is left."""
    r = HALF * np.cos(np.pi * np.arange(2001) / 2000)
    powers = np.stack([r**power for power in (2, 3, 4, 5)], axis=1) * np.exp(-r)[:, None]
    wanted = (np.exp(r) - 1 - r) * np.exp(-r)
    weights = np.ones_like(r)
    for _ in range(1000):
        root = np.sqrt(weights)
        fitted: NDArray[np.float64] = np.linalg.lstsq(powers * root[:, None], wanted * root, rcond=None)[0]
        weights *= np.abs(powers @ fitted - wanted)
        weights /= weights.sum()
    return fitted


def test_the_exponentials_polynomial_is_minimax() -> None:
    ours, best = _coefficients(), _minimax()
    assert ours == pytest.approx(best, abs=1e-6)
    assert _relative_error(ours) < 1.02 * _relative_error(best) < 1.1e-7
