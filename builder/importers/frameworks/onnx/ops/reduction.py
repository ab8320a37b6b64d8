"""Operators that reduce dimensions: sums, extremes, norms, their positions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.array_functions import accumulate
from builder.importers.frameworks.graph_values import Value, find_highest, find_lowest, list_axes, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _sum(x: Value, **where: Any) -> Value:
    return jnp.sum(x, **where, dtype=x.dtype)


def _reduce(function: Callable[..., Any], x: Value, wanted: Value = None, **keys: Any) -> Value:
    """Reduce the axes, an input or an attribute by the opset, with ``function``; all of them if there are none."""
    axes = keys.get("axes") if wanted is None else wanted
    x, chosen = jnp.asarray(x), () if axes is None else list_axes(axes, np.ndim(x))
    if not chosen and keys.get("noop_with_empty_axes"):
        return function(x[None], axis=(0,), keepdims=False).astype(x.dtype)  # Each element is reduced alone.
    return function(x, axis=chosen or tuple(range(x.ndim)), keepdims=bool(keys.get("keepdims", 1))).astype(x.dtype)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, **where: _sum(jnp.abs(x), **where),
    "ReduceL2": lambda x, **where: jnp.sqrt(_sum(jnp.square(x), **where)),
    "ReduceLogSum": lambda x, **where: jnp.log(_sum(x, **where)),
    "ReduceLogSumExp": jax.scipy.special.logsumexp,
    "ReduceMax": lambda x, **where: jnp.max(x, **where, initial=find_lowest(x.dtype)),
    "ReduceMean": jnp.mean,
    "ReduceMin": lambda x, **where: jnp.min(x, **where, initial=find_highest(x.dtype)),
    "ReduceProd": lambda x, **where: jnp.prod(x, **where, dtype=x.dtype),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, **where: _sum(jnp.square(x), **where),
}
OPS.enter_all({name: functools.partial(_reduce, function) for name, function in _REDUCTIONS.items()})


def _find_extreme(function: Callable[..., Any], x: Value, *, axis: int = 0, **keys: Any) -> Value:
    """Return the position of the largest or smallest element along an axis, the first or the last one."""
    x, last = jnp.asarray(x), keys.get("select_last_index")
    index = function(jnp.flip(x, axis) if last else x, axis=axis, keepdims=bool(keys.get("keepdims", 1)))
    return (x.shape[axis] - 1 - index if last else index).astype(np.int64)


OPS.enter_all(
    {
        "ArgMax": functools.partial(_find_extreme, jnp.argmax),
        "ArgMin": functools.partial(_find_extreme, jnp.argmin),
        "CumProd": lambda x, axis, **keys: accumulate(jnp.cumprod, 1, x, list_axes(axis, x.ndim)[0], **keys),
        "CumSum": lambda x, axis, **keys: accumulate(jnp.cumsum, 0, x, list_axes(axis, x.ndim)[0], **keys),
    }
)


@OPS.define("TopK")
def find_top(x: Value, k: Value = None, *, axis: int = -1, largest: int = 1, **keys: Any) -> Any:
    """Return the ``k`` largest or smallest elements along an axis, in order, and their positions."""
    count = keys["k"] if k is None else read_int(k)
    x = jnp.moveaxis(jnp.asarray(x), axis, -1)
    if largest:
        values, index = lax.top_k(x, count)
    else:
        index = jnp.argsort(x, axis=-1, stable=True)[..., :count]
        values = jnp.take_along_axis(x, index, -1)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(index.astype(np.int64), -1, axis)
