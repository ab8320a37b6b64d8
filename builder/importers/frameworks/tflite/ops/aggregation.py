"""Operators that reduce dimensions, or windows that move over an array: sums, extremes, their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.array_functions import accumulate
from builder.importers.frameworks.graph_values import Value, find_lowest, list_axes, read_int, read_ints
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tflite.fused_activation import activate
from builder.importers.frameworks.tflite.ops.products import name_padding

OPS = OperatorTable()

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "MEAN": jnp.mean, "REDUCE_ALL": jnp.all, "REDUCE_ANY": jnp.any, "REDUCE_MAX": jnp.max, "REDUCE_MIN": jnp.min,
    "REDUCE_PROD": jnp.prod, "SUM": jnp.sum,
}  # fmt: skip


def _reduce(options: Any, x: Value, axes: Value, function: Callable[..., Any]) -> Value:
    return function(x, list_axes(axes, np.ndim(x)), keepdims=bool(options.keepDims)).astype(x.dtype)


for _name, _reduction in _REDUCTIONS.items():
    OPS.enter(_name, lambda options, x, axes, _function=_reduction: _reduce(options, x, axes, _function))


OPS.enter("ARG_MAX", lambda _, x, axis: jnp.argmax(x, read_int(axis)))
OPS.enter("ARG_MIN", lambda _, x, axis: jnp.argmin(x, read_int(axis)))
OPS.enter("TOPK_V2", lambda _, x, k: tuple(lax.top_k(jnp.asarray(x), read_int(k))))
OPS.enter("RFFT2D", lambda _, x, sizes: jnp.fft.rfft2(jnp.asarray(x), tuple(read_ints(sizes))))


@OPS.define("CUMSUM")
def add_up(options: Any, x: Value, axis: Value) -> Value:
    """Return the sums of all elements up to each one along an axis."""
    (where,) = list_axes(axis, np.ndim(x))
    return accumulate(jnp.cumsum, 0, x, where, reverse=options.reverse, exclusive=options.exclusive)


@OPS.define("L2_NORMALIZATION")
def normalise_length(options: Any, x: Value) -> Value:
    """Return ``x`` divided by the length of the vector in its last dimension."""
    norm = jnp.sqrt(jnp.sum(jnp.square(x), -1, keepdims=True))
    return x / jnp.maximum(norm, np.float32(1e-6))


def pool(options: Any, x: Value, start: Any, function: Any) -> Value:
    """Reduce windows over the images ``x`` [n, h, w, c] with ``function``."""
    window = (1, options.filterHeight, options.filterWidth, 1)
    strides = (1, options.strideH, options.strideW, 1)
    return lax.reduce_window(
        jnp.asarray(x), np.asarray(start, x.dtype), function, window, strides, name_padding(options)
    )


def count_in_windows(options: Any, shape: Sequence[int], dtype: Any) -> Value:
    """Return how many pixels of an image of ``shape`` [n, h, w, c] are in each window: [1, h, w, 1]."""
    return pool(options, np.ones((1, *shape[1:3], 1), dtype), 0, lax.add)


@OPS.define("MAX_POOL_2D")
def pool_largest(options: Any, x: Value) -> Value:
    """Return the largest element in each window."""
    return activate(pool(options, x, find_lowest(x.dtype), lax.max), options)


@OPS.define("AVERAGE_POOL_2D")
def pool_average(options: Any, x: Value) -> Value:
    """Return the mean of the elements in each window, without its padding."""
    return activate(pool(options, x, 0, lax.add) / count_in_windows(options, np.shape(x), x.dtype), options)


@OPS.define("L2_POOL_2D")
def pool_norm(options: Any, x: Value) -> Value:
    """Return the root of the mean square of the elements in each window."""
    squares = pool(options, jnp.square(x), 0, lax.add)
    return activate(jnp.sqrt(squares / count_in_windows(options, np.shape(x), x.dtype)), options)


@OPS.define("LOCAL_RESPONSE_NORMALIZATION")
def normalise_locally(options: Any, x: Value) -> Value:
    """Return ``x`` divided by a power of the sum of squares over neighbouring channels."""
    rank, size = np.ndim(x), 2 * options.radius + 1
    pads = [(0, 0)] * (rank - 1) + [(options.radius, options.radius)]
    squares = lax.reduce_window(jnp.square(x), np.float32(0), lax.add, (1,) * (rank - 1) + (size,), (1,) * rank, pads)
    return x * jnp.power(np.float32(options.bias) + np.float32(options.alpha) * squares, np.float32(-options.beta))


_FUNCTIONS: dict[int, Callable[..., Any]] = {
    schema.ReduceWindowFunction.ADD: lax.add, schema.ReduceWindowFunction.MUL: lax.mul,
    schema.ReduceWindowFunction.MINIMUM: lax.min, schema.ReduceWindowFunction.MAXIMUM: lax.max,
    schema.ReduceWindowFunction.ALL: lax.bitwise_and, schema.ReduceWindowFunction.ANY: lax.bitwise_or,
}  # fmt: skip


@OPS.define("REDUCE_WINDOW")
def reduce_windows(options: Any, x: Value, start: Value, size: Value, strides: Value, dilations: Value) -> Value:
    """Return what a function makes of the elements in each window over all dimensions."""
    function = _FUNCTIONS[options.reduceFunction]
    window, steps, spread = (tuple(read_ints(value)) for value in (size, strides, dilations))
    first = jnp.reshape(start, ())
    return lax.reduce_window(jnp.asarray(x), first, function, window, steps, "VALID", window_dilation=spread)
