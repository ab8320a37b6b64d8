"""Operators that reduce dimensions: sums, extremes and their positions, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.array_functions import accumulate
from builder.importers.frameworks.graph_values import Value, list_axes, read_int, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

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
