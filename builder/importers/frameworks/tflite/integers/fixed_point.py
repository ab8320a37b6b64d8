"""LiteRT's fixed-point arithmetic: an integer times a real number, rounded twice, and functions of 16 bits.

A number of 16 bits with k integer bits is an integer times 2^(k − 15). Its functions are those of Gemmlowp: a Taylor
series and a product of powers for e^x, three steps of Newton's method for a quotient. Their arrays are NumPy's, int64.
"""

from __future__ import annotations

import math
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


def multiply_real(x: Any, real: Any) -> Any:
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


def _shift_left(x: Any, count: int) -> Any:
    return np.clip(x << count, -32768, 32767)


def _make_constant(real: float, integer_bits: int) -> int:
    return round(math.ldexp(real, 15 - integer_bits))


def _compute_exponential(x: Any, integer_bits: int) -> Any:
    """Return e^x without integer bits, for x ≤ 0."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (x & (quarter - 1)) - quarter
    near = (rest << integer_bits) + (1 << 12)  # from −1/4 … 0 to around the middle
    square = multiply_short(near, near)
    cube, fourth = multiply_short(square, near), divide_by_power(multiply_short(square, square), 2)
    series = divide_by_power(multiply_short(fourth + cube, _make_constant(1 / 3, 0)) + square, 1)
    middle = _make_constant(math.exp(-1 / 8), 0)
    result = np.clip(middle + multiply_short(middle, near + series), -32768, 32767)
    for exponent in range(-2, integer_bits):
        power = multiply_short(result, _make_constant(math.exp(-(2.0**exponent)), 0))
        result = np.where((rest - x) & (1 << (fraction + exponent)), power, result)
    return np.where(x == 0, 32767, result)


def _divide_by_half_sum(x: Any) -> Any:
    """Return 2 / (1 + x) with two integer bits, for x in [0, 1]."""
    half = (x + 32767 + 1) >> 1
    result = _make_constant(48 / 17, 2) + multiply_short(half, _make_constant(-32 / 17, 2))
    for _ in range(3):
        result = result + _shift_left(multiply_short(result, (1 << 13) - multiply_short(half, result)), 2)
    return result


def tabulate_sigmoid(integer_bits: int) -> Any:
    """Return the sigmoids of all integers from the least on, as int16 without integer bits."""
    x = np.arange(-32768, 32768)
    positive = _shift_left(_divide_by_half_sum(_compute_exponential(-np.abs(x), integer_bits)), 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, positive, 32767 - positive)).astype(np.int16)


def tabulate_tanh(integer_bits: int) -> Any:
    """Return the hyperbolic tangents of all integers from the least on, as int16 without integer bits."""
    x = np.arange(-32768, 32768)
    quotient = _divide_by_half_sum(_compute_exponential(-np.abs(x), integer_bits + 1))
    size = _shift_left(quotient - (1 << 13), 2)
    return np.where(x == 0, 0, np.sign(x) * size).astype(np.int16)
