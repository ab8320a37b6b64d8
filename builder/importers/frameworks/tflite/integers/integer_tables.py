"""Functions of one quantised tensor: the results for all its integers are computed when the model is read.

XNNPACK multiplies by the inverse of the output's scale and rounds to even; LiteRT rounds half away from zero. For 16
bits LiteRT interpolates between 512 results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.tflite.integers.fixed_point import (
    FixedPoint,
    divide_by_power,
    invert_root,
    make_fixed_point,
    multiply,
    multiply_short,
    round_away,
    tabulate_sigmoid,
    tabulate_tanh,
)
from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable, Value, centre, store
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()
_Function = Callable[[Any], Any]


def _list_integers(tensor: Tensor) -> Any:
    limits = np.iinfo(tensor.dtype)
    return np.arange(limits.min, limits.max + 1, dtype=np.int64)


def _look_up(table: Any, x: Value, tensor: Tensor) -> Value:
    return jnp.asarray(table)[x.astype(np.int32) - np.iinfo(tensor.dtype).min]


def _cut(table: Any, output: Tensor) -> Any:
    limits = np.iinfo(output.dtype)
    return np.clip(table, limits.min, limits.max).astype(output.dtype)


def _tabulate_function(function: _Function, tensor: Tensor, output: Tensor, delegated: Sequence[str] = ()) -> Any:
    """Return the results for all integers. XNNPACK takes bytes of the types ``delegated``."""
    if tensor.dtype.itemsize == 2:
        limits = (tensor.step * np.float32(bound - tensor.zero) for bound in (-32768, 32767))
        return interpolate(function, tuple(limits), np.float32(output.step), output.zero)
    real = (_list_integers(tensor) - tensor.zero).astype(np.float32) * tensor.step
    scaled = function(real).astype(np.float32) * (np.float32(1) / output.step)
    if str(tensor.dtype) in delegated:
        return _cut(np.rint(scaled + np.float32(output.zero)), output)
    return _cut(round_away(scaled) + output.zero, output)


def interpolate(function: _Function, real: Any, scale: Any, offset: int) -> Any:
    """Return LiteRT's 16-bit results for all integers: 512 steps from ``real[0]`` to ``real[1]``, then straight lines.

    A result of ``scale`` × n is the integer n + ``offset``. The sort of ``scale`` is that of the arithmetic.
    """
    kind = type(scale)
    least, most = kind(scale * kind(-32768 - offset)), kind(scale * kind(32767 - offset))
    inverse = kind(65536) / (most - least)
    step = (kind(real[1]) - kind(real[0])) / kind(512)
    points = kind(real[0]) + np.arange(513).astype(kind) * step
    values, middles = function(points).astype(kind), function(points[:-1] + step / kind(2)).astype(kind)
    samples = round_away(values * inverse)
    straight = round_away((values[1:] * inverse + samples[:-1]) / kind(2))
    bias = round_away((straight - round_away(middles * inverse)) / kind(2))
    table = np.clip(np.append(samples[:-1] - bias, samples[-1]), -32768, 32767).astype(np.int64)
    integers = np.arange(-32768, 32768)
    places = 256 + (integers >> 7)
    return (table[places] + (((table[places + 1] - table[places]) * (integers & 127) + 64) >> 7)).astype(np.int16)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(x.astype(np.float64), -100, 100)))


def _exponential(x: Any) -> Any:
    return np.exp(x.astype(np.float64))  # The C library's float32 is the nearest to this, NumPy's is not.


def _logarithm(x: Any, least: Any) -> Any:
    return np.where(x > 0, np.log(np.maximum(x, np.finfo(x.dtype).tiny).astype(np.float64)), least)


def _invert_root(x: Any, most: Any) -> Any:
    return np.where(x > 0, np.float32(1) / np.sqrt(np.maximum(x, np.finfo(x.dtype).tiny)), most)


def _hyperbolic_tangent(x: Any) -> Any:
    return np.tanh(x.astype(np.float64))


def _elu(x: Any) -> Any:
    return np.where(x < 0, np.expm1(x.astype(np.float64)), x)


def _gelu(x: Any) -> Any:
    return np.float32(0.5) * x * np.vectorize(math.erfc)(x * np.float32(-np.sqrt(0.5))).astype(x.dtype)


def _approximate_gelu(x: Any) -> Any:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (np.float32(1) + _hyperbolic_tangent(inner).astype(x.dtype))


@OPS.define("RSQRT")
def _reciprocal_root(_: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    (tensor,) = tensors
    if tensor.dtype.itemsize == 2:
        function = functools.partial(_invert_root, most=np.float32(32767) * output.step)
        return _look_up(_tabulate_function(function, tensor, output), x, tensor)
    centred = centre(x, tensor)
    inverse, factor = invert_root(centred), make_fixed_point(1 / np.float64(np.sqrt(tensor.step) * output.step))
    fine = multiply(jnp.ones_like(centred), FixedPoint(inverse.value, inverse.shift + 20))
    result = multiply(fine, FixedPoint(factor.value, factor.shift - 20))
    return store(jnp.where(centred == 0, 255, result), output)


def _tabulate_root(_: Any, tensor: Tensor, output: Tensor) -> Any:
    real = tensor.step * np.maximum(_list_integers(tensor) - tensor.zero, 0).astype(np.float32)
    return _cut(np.trunc(np.sqrt(real) / output.step) + output.zero, output)


def _tabulate_log(_: Any, tensor: Tensor, output: Tensor) -> Any:
    least = np.float32(np.iinfo(output.dtype).min - output.zero) * output.step
    return _tabulate_function(functools.partial(_logarithm, least=least), tensor, output)


def _tabulate_gelu(options: Any, tensor: Tensor, output: Tensor) -> Any:
    return _tabulate_function(_approximate_gelu if options.approximate else _gelu, tensor, output)


def _scale_wide(tensor: Tensor) -> Any:
    """Return all 16-bit integers in steps of 1 / (3 × 4096), as LiteRT's sigmoid and tanh read their table."""
    factor, shift = np.float64(tensor.step) * 4096 * 3, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return (_list_integers(tensor) * int(factor) + ((1 << shift) >> 1)) >> shift


def _tabulate_sigmoid() -> Any:
    """Return 2^16 × sigmoid(x / 24) for x = 0 … 255, raised so that straight lines between miss it on both sides."""
    exact = 65536 * _sigmoid(np.arange(-1, 257) / 24)
    raised = exact[1:-1] - np.diff(exact, 2) / 16
    return np.append(np.rint(raised)[:255], 65535).astype(np.int64)


_SIGMOID = _tabulate_sigmoid()


def _interpolate_sigmoid(x: Any, bits: int) -> Any:
    """Return 2^(16 + ``bits``) × sigmoid(x / (24 × 2^bits)) for x ≥ 0, by straight lines."""
    places = np.minimum(x >> bits, 254)
    low, high = _SIGMOID[places], _SIGMOID[places + 1]
    return np.where(x >> bits >= 255, 0, (low << bits) + (x & ((1 << bits) - 1)) * (high - low))


def _tabulate_wide_sigmoid(tensor: Tensor) -> Any:
    if tensor.step == 2**-12:
        return tabulate_sigmoid(3)
    x = _scale_wide(tensor)
    y = np.where(np.abs(x) >> 9 >= 255, 0x7FFF << 10, _interpolate_sigmoid(np.abs(x), 9))
    return (np.where(x >= 0, y + 512, (1 << 25) - y + 511) >> 10).astype(np.int16)


def _tabulate_wide_tanh(tensor: Tensor) -> Any:
    if tensor.step in (2**-12, 2**-11):
        scaled = _list_integers(tensor) * int(tensor.step * 2**12)
        return tabulate_tanh(3)[np.clip(scaled, -32768, 32767) + 32768]
    x = _scale_wide(tensor)
    y = np.where(np.abs(x) >> 8 >= 255, 0xFFFF << 8, _interpolate_sigmoid(np.abs(x), 8))
    return (np.where(x >= 0, y - (1 << 23) + 128, -y + (1 << 23) + 127) >> 8).astype(np.int16)


def _tabulate_squashing(
    function: _Function, wide: Callable[[Tensor], Any], _: Any, tensor: Tensor, output: Tensor
) -> Any:
    return (
        wide(tensor) if tensor.dtype.itemsize == 2 else _tabulate_function(function, tensor, output, ("int8", "uint8"))
    )


def _tabulate_hard_swish(_: Any, tensor: Tensor, output: Tensor) -> Any:
    fine = np.float32(1 / 128) * tensor.step
    out, relu = make_fixed_point(fine / output.step), make_fixed_point(fine / np.float32(3 / 32768))
    high = (_list_integers(tensor) - tensor.zero) << 7
    scaled = multiply_short(high, out.upper)
    gate = np.clip(high << max(relu.shift - 1, 0), -32768, 32767)
    gate = np.clip(multiply_short(gate, relu.upper) << min(max(relu.shift, 0), 1), -32768, 32767)
    gate = (divide_by_power(gate, -min(relu.shift, 0)) + (1 << 15)) >> 1
    product = np.fix(gate * scaled / 2**15).astype(np.int64)
    return _cut(divide_by_power(product, -out.shift) + output.zero, output)


_TABLES: dict[str, Callable[[Any, Tensor, Tensor], Any]] = {
    "ELU": lambda _, x, y: _tabulate_function(_elu, x, y, ("int8",)),
    "EXP": lambda _, x, y: _tabulate_function(_exponential, x, y),
    "GELU": _tabulate_gelu,
    "HARD_SWISH": _tabulate_hard_swish,
    "LOG": _tabulate_log,
    "LOGISTIC": functools.partial(_tabulate_squashing, _sigmoid, _tabulate_wide_sigmoid),
    "SQRT": _tabulate_root,
    "TANH": functools.partial(_tabulate_squashing, _hyperbolic_tangent, _tabulate_wide_tanh),
}
"""Functions that make the table of an operator from its options, its input and its output."""


def _apply_table(tabulate: Any, options: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    return _look_up(tabulate(options, tensors[0], output), x, tensors[0])


OPS.update({name: functools.partial(_apply_table, tabulate) for name, tabulate in _TABLES.items()})
