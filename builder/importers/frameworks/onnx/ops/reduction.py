"""Operators that reduce dimensions: sums, extremes, norms, their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, find_lowest, list_axes, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _mean(x: Value, **where: Any) -> Value:
    return jnp.mean(x, **where).astype(x.dtype)


def _extreme(function: Callable[..., Any], limit: Callable[[Any], Any]) -> Callable[..., Any]:
    def reduce(x: Value, **where: Any) -> Value:
        if x.dtype == bool:
            return function(x.astype(np.uint8), **where, initial=limit(np.dtype(np.uint8))).astype(bool)
        return function(x, **where, initial=limit(np.dtype(x.dtype)))

    return reduce


def _highest(dtype: Any) -> Any:
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max


def _sum(x: Value, **where: Any) -> Value:
    return jnp.sum(x, **where, dtype=x.dtype)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, **where: _sum(jnp.abs(x), **where),
    "ReduceL2": lambda x, **where: jnp.sqrt(_sum(jnp.square(x), **where)).astype(x.dtype),
    "ReduceLogSum": lambda x, **where: jnp.log(_sum(x, **where)).astype(x.dtype),
    "ReduceLogSumExp": lambda x, **where: jax.scipy.special.logsumexp(x, **where).astype(x.dtype),
    "ReduceMax": _extreme(jnp.max, find_lowest),
    "ReduceMean": _mean,
    "ReduceMin": _extreme(jnp.min, _highest),
    "ReduceProd": lambda x, **where: jnp.prod(x, **where, dtype=x.dtype),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, **where: _sum(jnp.square(x), **where),
}


def _reduce(
    x: Value,
    axes_input: Value = None,
    *,
    function: Callable[..., Any],
    axes: Any = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Value:
    """Reduce the axes, an input or an attribute by the opset, with ``function``; all of them if there are none."""
    chosen = axes_input if axes_input is not None else axes
    chosen = () if chosen is None else list_axes(np.asarray(chosen), x.ndim)
    x = jnp.asarray(x)
    if not chosen and noop_with_empty_axes:
        return function(x[None], axis=(0,), keepdims=False)  # Each element is reduced alone.
    return function(x, axis=chosen or tuple(range(x.ndim)), keepdims=bool(keepdims))


for _name, _function in _REDUCTIONS.items():
    OPS.enter(_name, lambda *inputs, _function=_function, **keys: _reduce(*inputs, function=_function, **keys))


def _find_extreme(x: Value, function: Callable[..., Any], axis: int, keepdims: int, last: int) -> Value:
    x = jnp.asarray(x)
    index = function(jnp.flip(x, axis) if last else x, axis=axis, keepdims=bool(keepdims)).astype(np.int64)
    return x.shape[axis] - 1 - index if last else index


@OPS.define("ArgMax")
def find_largest(x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """Return the position of the largest element along an axis, the first or the last one."""
    return _find_extreme(x, jnp.argmax, axis, keepdims, select_last_index)


@OPS.define("ArgMin")
def find_smallest(x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """Return the position of the smallest element along an axis, the first or the last one."""
    return _find_extreme(x, jnp.argmin, axis, keepdims, select_last_index)


@OPS.define("TopK")
def find_top(x: Value, k: Value = None, *, axis: int = -1, largest: int = 1, sorted: int = 1, **keys: Any) -> Any:
    """Return the ``k`` largest or smallest elements along an axis, in order, and their positions."""
    count = read_int(k) if k is not None else keys["k"]
    x = jnp.moveaxis(jnp.asarray(x), axis, -1)
    if largest:
        values, index = lax.top_k(x, count)
    else:
        index = jnp.argsort(x, axis=-1, stable=True)[..., :count]
        values = jnp.take_along_axis(x, index, -1)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(index.astype(np.int64), -1, axis)


def _accumulate(x: Value, axis: Value, function: Callable[..., Any], exclusive: int, reverse: int, first: int) -> Value:
    position = list_axes(axis, x.ndim)[0]
    x = jnp.flip(x, position) if reverse else jnp.asarray(x)
    if exclusive:
        head = lax.slice_in_dim(x, 0, x.shape[position] - 1, axis=position)
        start = jnp.full([1 if d == position else n for d, n in enumerate(x.shape)], first, x.dtype)
        x = jnp.concatenate([start, head], position)
    result = function(x, axis=position, dtype=x.dtype)
    return jnp.flip(result, position) if reverse else result


@OPS.define("CumSum")
def add_up(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Return the sums of all elements up to each one along an axis."""
    return _accumulate(x, axis, jnp.cumsum, exclusive, reverse, 0)


@OPS.define("CumProd")
def multiply_up(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Return the products of all elements up to each one along an axis."""
    return _accumulate(x, axis, jnp.cumprod, exclusive, reverse, 1)
