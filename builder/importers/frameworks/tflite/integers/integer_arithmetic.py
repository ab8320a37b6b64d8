"""Arithmetic on quantised tensors, element by element, as XNNPACK's and LiteRT's kernels compute it.

XNNPACK takes operators on bytes whose scales are not far apart: it multiplies by an integer and shifts, or by one
float32. Everything else is LiteRT's own fixed-point arithmetic.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.tflite.integers.fixed_point import (
    make_fixed_point,
    multiply,
    multiply_real,
    round_away,
)
from builder.importers.frameworks.tflite.integers.integer_values import (
    IntegerTable,
    Value,
    centre,
    store,
    store_between,
    take_blocks,
)
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()


def _is_near(tensors: Sequence[Tensor], output: Tensor, least: float, most: float) -> bool:
    """Say whether all are bytes of one type, and their scales divided by that of the output are in [least, most)."""
    return _are_bytes(tensors, output) and all(least <= tensor.step / output.step < most for tensor in tensors)


def _are_bytes(tensors: Sequence[Tensor], output: Tensor) -> bool:
    return output.dtype.itemsize == 1 and all(tensor.dtype == output.dtype for tensor in tensors)


def _add(sign: int, options: Any, tensors: Sequence[Tensor], output: Tensor, *values: Value) -> Value:
    if _is_near(tensors, output, 2**-10, 2**8):
        ratios = [tensor.step / output.step for tensor in tensors]
        shift = 21 - int(np.frexp(max(ratios))[1])
        factors = [int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios]
        first, second = (centre(*part) * factor for *part, factor in zip(values, tensors, factors, strict=True))
        return store((first + sign * second + (1 << (shift - 1))) >> shift, output, options)
    left = 15 if output.dtype.itemsize == 2 else 20
    first, second, top = _align_scales(values, tensors, left)
    factor = top / np.float64(output.step * np.float32(1 << left))
    return store(multiply_real(first + sign * second, factor), output, options)


def _align_scales(values: Sequence[Value], tensors: Sequence[Tensor], left: int) -> tuple[Value, Value, float]:
    """Return two tensors' integers on one scale, shifted ``left``, and the scale that stands for 1 << ``left``."""
    top = 2 * np.float64(max(tensor.step for tensor in tensors))
    parts = zip(values, tensors, strict=True)
    first, second = (multiply_real(centre(value, tensor) << left, tensor.step / top) for value, tensor in parts)
    return first, second, top


OPS["ADD"] = functools.partial(_add, 1)
OPS["SUB"] = functools.partial(_add, -1)


@OPS.define("MUL")
def _multiply(options: Any, tensors: Sequence[Tensor], output: Tensor, a: Value, b: Value) -> Value:
    first, second = tensors
    product, factor = centre(a, first) * centre(b, second), first.step * second.step / output.step
    if _are_bytes(tensors, output) and 2**-16 <= factor < 2**8:
        return store(jnp.round(product.astype(np.float32) * factor), output, options)
    return store(multiply_real(product, factor), output, options)


@OPS.define("SQUARED_DIFFERENCE")
def _square_difference(options: Any, tensors: Sequence[Tensor], output: Tensor, *values: Value) -> Value:
    first, second, top = _align_scales(values, tensors, 7)
    return store(
        multiply_real((first - second) ** 2, top * top / np.float64(output.step * np.float32(1 << 14))), output
    )


def _compare(function: Any, _: Any, tensors: Sequence[Tensor], __: Tensor, *values: Value) -> Value:
    if tensors[0].dtype.itemsize == 2 and function not in (jnp.equal, jnp.not_equal):
        return function(*values)
    first, second = (
        multiply_real(centre(value, tensor) << 8, tensor.step) for value, tensor in zip(values, tensors, strict=True)
    )
    return function(first, second)


for _name, _function in {
    "EQUAL": jnp.equal, "NOT_EQUAL": jnp.not_equal, "GREATER": jnp.greater, "GREATER_EQUAL": jnp.greater_equal,
    "LESS": jnp.less, "LESS_EQUAL": jnp.less_equal,
}.items():  # fmt: skip
    OPS[_name] = functools.partial(_compare, _function)


@OPS.define("QUANTIZE")
def _quantise(_: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    (tensor,) = tensors
    if not tensor.is_quantised:
        real = jnp.asarray(x).astype(np.float32)
        rounded = jnp.round(real * (np.float32(1) / output.step))
        if output.dtype.itemsize == 2:
            rounded = take_blocks(rounded, round_away(real / output.step), 8)
        return store(rounded, output)
    centred = centre(x, tensor)
    if _is_near(tensors, output, 2**-8, np.nextafter(2**7, 2**8)):
        return store(_scale_by_256th(centred, tensor.step / output.step), output)
    factor = make_fixed_point(np.float64(tensor.step) / output.step)
    result = multiply(centred, factor)
    if tensor.dtype.itemsize == 1 and output.dtype.itemsize == 1:
        result = take_blocks(multiply(centred, factor, upwards=True), result, 16)
    return store(result, output)


def _scale_by_256th(x: Value, ratio: Any) -> Value:
    """Return integers times ``ratio`` rounded to a 256th, as XNNPACK changes scales."""
    return (x * int(np.rint(np.float32(256) * ratio)) + 128) >> 8


@OPS.define("LEAKY_RELU")
def _leaky_relu(options: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    (tensor,) = tensors
    centred, ratio = centre(x, tensor), tensor.step / output.step
    alpha = np.float32(options.alpha)
    slope = ratio * alpha
    near = _is_near(tensors, output, 2**-8, np.nextafter(2**7, 2**8))
    if near and abs(slope) >= 2**-8 and -127.99609375 <= slope <= 2**7:
        return store(jnp.where(centred > 0, _scale_by_256th(centred, ratio), _scale_by_256th(centred, slope)), output)
    steep = multiply_real(centred, tensor.step * alpha / output.step)
    return store(jnp.where(centred >= 0, multiply_real(centred, ratio), steep), output)


@OPS.define("PRELU")
def _parametric_relu(_: Any, tensors: Sequence[Tensor], output: Tensor, x: Value, slope: Value) -> Value:
    first, second = tensors
    centred = centre(x, first)
    steep = multiply_real(centred * centre(slope, second), first.step * second.step / output.step)
    return store(jnp.where(centred >= 0, multiply_real(centred, first.step / output.step), steep), output)


@OPS.define("NEG")
def _negate(_: Any, __: Any, ___: Any, x: Value) -> Value:
    return -jnp.asarray(x)  # The integers themselves, whatever their zero point: LiteRT does so.


def _rectify(bounds: tuple[float, float | None], _: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    (tensor,) = tensors
    return store_between(multiply_real(centre(x, tensor), tensor.step / output.step), output, bounds)


for _name, _bounds in {
    "RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1),
}.items():  # fmt: skip
    OPS[_name] = functools.partial(_rectify, _bounds)


@OPS.define("ABS")
def _absolute(_: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    (tensor,) = tensors
    return store(multiply_real(jnp.abs(centre(x, tensor)), tensor.step / output.step), output)
