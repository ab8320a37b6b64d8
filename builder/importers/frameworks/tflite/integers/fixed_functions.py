"""LiteRT's sigmoid and hyperbolic tangent in fixed point: the results for all integers of 16 bits.

A number with k integer bits is an integer times 2^(k − 15). The algorithms are those of Gemmlowp: a Taylor series and
a product of powers for e^x, three steps of Newton's method for a quotient. Arrays are int64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from builder.importers.frameworks.tflite.integers.fixed_point import divide_by_power, multiply_short

_ONE = 32767


def _shift_left(x: Any, count: int) -> Any:
    return np.clip(x << count, -32768, 32767)


def _make_constant(real: float, integer_bits: int) -> int:
    return round(math.ldexp(real, 15 - integer_bits))


def _exponentiate(x: Any, integer_bits: int) -> Any:
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
    return np.where(x == 0, _ONE, result)


def _divide_by_half_sum(x: Any) -> Any:
    """Return 2 / (1 + x) with two integer bits, for x in [0, 1]."""
    half = (x + _ONE + 1) >> 1
    result = _make_constant(48 / 17, 2) + multiply_short(half, _make_constant(-32 / 17, 2))
    for _ in range(3):
        result = result + _shift_left(multiply_short(result, (1 << 13) - multiply_short(half, result)), 2)
    return result


def tabulate_sigmoid(integer_bits: int) -> Any:
    """Return the sigmoids of all integers from the least on, as int16 without integer bits."""
    x = np.arange(-32768, 32768)
    positive = _shift_left(_divide_by_half_sum(_exponentiate(-np.abs(x), integer_bits)), 1)
    return np.where(x == 0, 1 << 14, np.where(x > 0, positive, _ONE - positive)).astype(np.int16)


def tabulate_tanh(integer_bits: int) -> Any:
    """Return the hyperbolic tangents of all integers from the least on, as int16 without integer bits."""
    x = np.arange(-32768, 32768)
    quotient = _divide_by_half_sum(_exponentiate(-np.abs(x), integer_bits + 1))
    size = _shift_left(quotient - (1 << 13), 2)
    return np.where(x == 0, 0, np.sign(x) * size).astype(np.int16)
