"""LiteRT's fixed-point arithmetic: an integer times a real number, rounded twice as its kernels do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The real number ``value`` × 2^(``shift`` − 31), where ``value`` has 31 bits, or an array of such numbers."""

    value: Any
    shift: Any

    @property
    def upper(self) -> Any:
        """The 16 upper bits of the value, rounded half up."""
        return np.minimum((self.value + 2**15) >> 16, 2**15 - 1)


def make_fixed_point(real: Any) -> FixedPoint:
    """Return the nearest fixed-point number."""
    fraction, shift = np.frexp(np.asarray(real, np.float64))
    value = round_away(fraction * 2**31).astype(np.int64)
    full = np.abs(value) == 2**31
    value, shift = np.where(full, value // 2, value), np.where(full, shift + 1, shift).astype(np.int64)
    return FixedPoint(np.where(shift < -31, 0, value), np.where(shift < -31, 0, shift))


def multiply(x: Any, factor: FixedPoint, *, upwards: bool = False) -> Any:
    """Return integers times ``factor``: the upper half of the doubled product, rounded, then shifted and rounded.

    The last rounding is away from zero in the middle between two integers, or upwards.
    """
    left, right = factor.shift * (factor.shift > 0), -factor.shift * (factor.shift < 0)
    high = ((jnp.asarray(x).astype(jnp.int64) << left) * factor.value + 2**30) >> 31
    return divide_by_power(high, right, upwards=upwards)


def scale(x: Any, real: Any) -> Any:
    """Return integers times the fixed-point number nearest to ``real``."""
    return multiply(x, make_fixed_point(real))


def multiply_wide(x: Any, factor: FixedPoint) -> Any:
    """Return int64 integers times ``factor`` with the 16 upper bits of its value, rounded half up."""
    return (x * factor.upper + (1 << (14 - factor.shift))) >> (15 - factor.shift)


def divide_by_power(x: Any, exponent: Any, *, upwards: bool = False) -> Any:
    """Return integers divided by 2^``exponent``, rounded half away from zero, or upwards."""
    half = (1 << exponent) >> 1
    return (x + (half if upwards else half - ((x < 0) & (exponent > 0)))) >> exponent


def multiply_short(a: Any, b: Any) -> Any:
    """Return the product of NumPy's 16-bit integers, whose integer bits are those of both factors together."""
    return np.minimum((a * b + (1 << 14)) >> 15, 32767)


def round_away(x: Any) -> Any:
    """Return real numbers rounded half away from zero, as C's ``round`` does."""
    module = np if isinstance(x, (np.ndarray, np.generic)) else jnp
    return module.copysign(module.floor(module.abs(x) + x.dtype.type(0.5)), x)


def invert_root(x: Any) -> FixedPoint:
    """Return 1 / √x of integers, by five steps of Newton's method; of 0, that of 1."""
    x = jnp.maximum(jnp.asarray(x).astype(jnp.int64), 1)
    length = 64 - lax.clz(x)
    pairs = (31 - length) // 2 - 1  # The argument is shifted to 28 or 29 bits, two at a time.
    half = divide_by_power(
        jnp.where(pairs < 0, x >> jnp.maximum(-2 * pairs, 0), x << jnp.maximum(2 * pairs, 0)) >> 1, 1
    )
    root = jnp.full_like(x, 1 << 28)
    for _ in range(5):
        cube = _times(_times(root, root), root) << 6
        root = (_times(root, 3 << 27) - _times(half, cube)) << 3
    value, shift = _times(root, 1518500250), pairs - 11  # × √2 / 2
    value, shift = value << jnp.maximum(shift, 0), jnp.minimum(shift, 0)
    return FixedPoint(jnp.where(x == 1, 2**31 - 1, value), jnp.where(x == 1, 0, shift))


def _times(a: Any, b: Any) -> Any:
    return (a * b + 2**30) >> 31
