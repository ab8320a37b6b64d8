"""Functions of arrays that operators of ONNX and of LiteRT share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value


def divide_values(a: Value, b: Value) -> Value:
    """Return the quotient; that of integers is cut off towards zero."""
    is_float = jnp.issubdtype(a.dtype, jnp.floating)
    return jnp.divide(a, b) if is_float else lax.div(*jnp.broadcast_arrays(a, b))


def scale_negative(x: Value, slope: Value) -> Value:
    """Return x where it is not negative, and the slope times x elsewhere."""
    return jnp.where(x >= 0, x, np.asarray(slope, x.dtype) * x if np.isscalar(slope) else slope * x)


def accumulate(
    function: Callable[..., Any], first: int, x: Value, axis: int, *, reverse: Any = 0, exclusive: Any = 0
) -> Value:
    """Return the sums or products of all elements up to each one along an axis; ``first``: that of none."""
    x = jnp.flip(x, axis) if reverse else jnp.asarray(x)
    if exclusive:
        head = lax.slice_in_dim(x, 0, x.shape[axis] - 1, axis=axis)
        x = jnp.concatenate([jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=axis), first), head], axis)
    result = function(x, axis=axis, dtype=x.dtype)
    return jnp.flip(result, axis) if reverse else result


def count_below(values: Value, x: Value, side: str = "left") -> Value:
    """Return how many of the sorted ``values`` are below each element of ``x``, or not above it if ``side`` is "right".

    The search has no loop, since XLA makes one kernel of a loop, and a program with such a kernel is not fused.
    """
    method = "scan_unrolled" if values.shape[0] > 1 else "compare_all"  # JAX keeps a loop of one turn.
    return jnp.searchsorted(jnp.asarray(values), x, side=side, method=method)


def reverse_sequences(x: Value, lengths: Value, batch_axis: int, time_axis: int) -> Value:
    """Return ``x`` with the first ``lengths`` elements of each sequence reversed in time."""
    x = jnp.moveaxis(jnp.asarray(x), (batch_axis, time_axis), (0, 1))
    times, count = jnp.arange(x.shape[1])[None, :], jnp.asarray(lengths)[:, None]
    where = jnp.where(times < count, count - 1 - times, times)
    result = jnp.take_along_axis(x, where.reshape(where.shape + (1,) * (x.ndim - 2)), 1)
    return jnp.moveaxis(result, (0, 1), (batch_axis, time_axis))


def encode_one_hot(indices: Value, depth: int, values: tuple[Value, Value], axis: int) -> Value:
    """Return the second of ``values`` at the position of each index along a new axis, and the first elsewhere."""
    rank = np.ndim(indices) + 1
    places = jnp.arange(depth).reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    return jnp.where(places == jnp.expand_dims(indices, axis % rank), values[1], values[0])
