"""Layers of real numbers whose weights are integers: LiteRT rounds each row or image of their input to bytes first.

The bytes are float32 here, so that fast kernels multiply them: a sum is exact below 2^24, and nearly so above.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.tflite.fused_activation import activate
from builder.importers.frameworks.tflite.integers.fixed_point import round_away
from builder.importers.frameworks.tflite.integers.integer_products import compute_transposed
from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable, Value, centre
from builder.importers.frameworks.tflite.ops.products import (
    convolve,
    convolve_depthwise,
    flatten_rows,
    multiply_batches,
    multiply_rows,
)
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()


def _find_range(x: Value, axes: tuple[int, ...], dtype: Any) -> tuple[Value, Value]:
    """Return the least and the largest element along ``axes``, and of zero."""
    least, most = jnp.min(x, axes, keepdims=True), jnp.max(x, axes, keepdims=True)
    return jnp.minimum(least, 0).astype(dtype), jnp.maximum(most, 0).astype(dtype)


def _round_even(x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Return bytes less their zero point, and their scale, as XNNPACK finds them."""
    least, most = _find_range(x, axes, np.float32)
    inverse = jnp.where(least == most, np.float32(1), np.float32(255) / (most - least))
    low, high = least * inverse, most * inverse
    zero = jnp.round(jnp.clip(jnp.where(low + high - 1 > 0, -128 - low, 127 - high), -128, 127))
    return jnp.clip(jnp.round(x * inverse), -128 - zero, 127 - zero), np.float32(1) / inverse


def _round_away(x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Return bytes less their zero point, and their scale, as LiteRT's own kernels find them."""
    least, most = _find_range(x, axes, np.float64)
    scale = jnp.where(least == most, 1.0, (most - least) / 255)
    low, high = least / scale, most / scale
    zero = jnp.where(128 - low < 127 + high, -128 - low, 127 - high)
    zero = round_away(jnp.clip(zero, -128, 127)).astype(np.float32)
    step = scale.astype(np.float32)
    return jnp.clip(round_away(zero + x * (np.float32(1) / step)), -128, 127) - zero, step


def _compute_layer(
    round_input: Any, product: Callable[..., Any], options: Any, tensors: Sequence[Tensor], _: Tensor, *values: Value
) -> Value:
    x, kernel, bias = (*values, None)[:3]
    quantisation, rows = tensors[1].quantisation, product in (multiply_rows, multiply_batches)
    assert quantisation
    x = flatten_rows(options, x, kernel) if product is multiply_rows else jnp.asarray(x)
    rounded, step = round_input(x, (x.ndim - 1,) if rows else tuple(range(1, x.ndim)))
    total = product(options, rounded, centre(kernel, tensors[1]).astype(np.float32)) * step * quantisation.scale
    return activate(total if bias is None else total + bias, options)


for _name, _round_input, _product in (
    ("CONV_2D", _round_even, convolve), ("DEPTHWISE_CONV_2D", _round_away, convolve_depthwise),
    ("FULLY_CONNECTED", _round_even, multiply_rows), ("BATCH_MATMUL", _round_even, multiply_batches),
):  # fmt: skip
    OPS[_name] = functools.partial(_compute_layer, _round_input, _product)
OPS["TRANSPOSE_CONV"] = functools.partial(compute_transposed, functools.partial(_compute_layer, _round_even))
