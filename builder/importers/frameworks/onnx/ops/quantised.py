"""Operators of 8-bit models: what rounds, what restores, and products and convolutions with scales."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from onnx import helper

from builder.importers.frameworks.graph_values import Value, spread_channels
from builder.importers.frameworks.onnx.ops.convolution import add_bias, integer_convolution
from builder.importers.frameworks.onnx.ops.linear import multiply_integers
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _spread(values: Value, x: Value, axis: int, block_size: int) -> Value:
    """Return scales or zero points, one for all or for each index or block of ``axis``, as they apply to ``x``."""
    values = jnp.asarray(values)
    if values.ndim == np.ndim(x) and block_size:
        return jnp.repeat(values, block_size, axis)[tuple(slice(size) for size in np.shape(x))]
    return values.reshape(()) if values.size == 1 else spread_channels(values, np.ndim(x), axis)


def round_values(x: Value, zero: Value, dtype: Any) -> Value:
    """Return ``x`` rounded to even, moved by ``zero``, and cut off at the bounds of ``dtype``."""
    bounds = jnp.iinfo(dtype)
    return jnp.clip(
        jnp.round(x).astype(np.float32) + jnp.asarray(zero).astype(np.float32), bounds.min, bounds.max
    ).astype(dtype)


@OPS.define("QuantizeLinear")
def quantise_linear(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0, **_: Any
) -> Value:
    """Return ``x`` as integers."""
    dtype = zero.dtype if zero is not None else helper.tensor_dtype_to_np_dtype(output_dtype or 2)
    factor = _spread(scale, x, axis, block_size)
    offset = 0 if zero is None else _spread(zero, x, axis, block_size)
    return round_values(jnp.asarray(x).astype(factor.dtype) / factor, offset, dtype)


@OPS.define("DequantizeLinear")
def restore_linear(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Value:
    """Return the numbers that integers stand for."""
    factor, wide = _spread(scale, x, axis, block_size), jnp.asarray(x).astype(np.int32)
    if zero is not None:
        wide = wide - _spread(zero, x, axis, block_size).astype(np.int32)
    dtype = helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else scale.dtype
    return (wide.astype(factor.dtype) * factor).astype(dtype)


def restore_triples(inputs: tuple[Value, ...]) -> list[Value]:
    """Return the numbers for integers that are each followed by their scale and their zero point."""
    return [restore_linear(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]


@OPS.define("QLinearMatMul")
def multiply_quantised(
    a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value, scale: Value, zero: Value
) -> Value:
    """Return the product of matrices of 8-bit integers, rounded to the scale and zero point of the result."""
    left = jnp.expand_dims(a_scale, -1) if np.ndim(a_scale) == 1 and np.size(a_scale) > 1 else jnp.asarray(a_scale)
    factor = (left * jnp.asarray(b_scale)).astype(np.float32) / jnp.asarray(scale).astype(np.float32)
    factor = factor.reshape(()) if factor.size == 1 else factor
    product = multiply_integers(a, b, a_zero, b_zero).astype(np.float32)
    return round_values(product * factor, jnp.asarray(zero).reshape(()), zero.dtype)


@OPS.define("QLinearConv")
def convolve_quantised(
    x: Value, x_scale: Value, x_zero: Value, kernel: Value, kernel_scale: Value, kernel_zero: Value, *rest: Value,
    **keys: Any,
) -> Value:  # fmt: skip
    """Return the convolution of 8-bit integers and a bias, rounded to the scale and zero point of the result."""
    scale, zero, bias = (*rest, None)[:3]
    total = add_bias(integer_convolution(x, kernel, x_zero, kernel_zero, **keys), bias).astype(np.float32)
    factor = spread_channels(jnp.asarray(x_scale) * jnp.asarray(kernel_scale) / jnp.asarray(scale), np.ndim(x))
    return round_values(total * factor, jnp.asarray(zero).reshape(()), zero.dtype)


@OPS.define("DynamicQuantizeLinear")
def quantise_dynamically(x: Value) -> tuple[Value, Value, Value]:
    """Return ``x`` as uint8, with the scale and the zero point that its own range has."""
    low, high = jnp.minimum(jnp.min(x), 0), jnp.maximum(jnp.max(x), 0)
    scale = jnp.where(low == high, 1, (high - low) / np.float32(255)).astype(np.float32)
    zero = jnp.clip(jnp.round(-low / scale), 0, 255).astype(np.uint8)
    return round_values(x / scale, zero, np.uint8), scale, zero
