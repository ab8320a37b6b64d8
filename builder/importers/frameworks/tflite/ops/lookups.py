"""Operators that read and write by index, and those whose result has a size that values decide."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.array_functions import count_below, encode_one_hot
from builder.importers.frameworks.graph_values import Value, find_lowest, read_array, read_int, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _read_tuple(numbers: Any) -> tuple[int, ...]:
    return tuple(map(int, numbers))


def _split_positions(indices: Value) -> tuple[Value, ...]:
    return tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))


def _update_slice(_: Any, x: Value, update: Value, start: Value) -> Value:
    return lax.dynamic_update_slice(jnp.asarray(x), jnp.asarray(update), list(jnp.maximum(start, 0)))


OPS.enter("GATHER_ND", lambda _, x, indices: jnp.asarray(x).at[_split_positions(indices)].get(mode="clip"))
OPS.enter("EMBEDDING_LOOKUP", lambda _, rows, table: jnp.take(jnp.asarray(table), jnp.asarray(rows), 0, mode="clip"))
OPS.enter("WHERE", lambda _, condition: np.argwhere(read_array(condition)))
OPS.enter("DYNAMIC_UPDATE_SLICE", _update_slice)


@OPS.define("ONE_HOT")
def one_hot(options: Any, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    """Return ``on`` at the position of each index along a new axis of ``depth``, ``off`` elsewhere."""
    return encode_one_hot(indices, read_int(depth), (off, on), options.axis)


@OPS.define("GATHER")
def gather_slices(options: Any, x: Value, indices: Value) -> Value:
    """Return the parts of ``x`` at ``indices`` along an axis, batch by batch."""
    pick = functools.partial(jnp.take, axis=options.axis % np.ndim(x) - options.batchDims, mode="clip")
    for _ in range(options.batchDims):
        pick = jax.vmap(pick)
    return pick(jnp.asarray(x), jnp.asarray(indices))


@OPS.define("EMBEDDING_LOOKUP_SPARSE")
def combine_rows(options: Any, ids: Value, indices: Value, shape: Value, weights: Value, table: Value) -> Value:
    """Return weighted sums or means of rows of a table; all but the last of ``indices`` say which sum has a row."""
    buckets = read_ints(shape)[:-1]
    where = _split_positions(jnp.asarray(indices)[:, :-1])
    rows = jnp.asarray(table)[jnp.asarray(ids)]
    factors = jnp.reshape(weights, (-1,) + (1,) * (rows.ndim - 1))
    total = jnp.zeros((*buckets, *rows.shape[1:]), rows.dtype).at[where].add(rows * factors)
    if options.combiner == schema.CombinerType.SUM:
        return total
    squared = options.combiner == schema.CombinerType.SQRTN
    norm = jnp.zeros((*buckets, *factors.shape[1:]), rows.dtype).at[where].add(factors**2 if squared else factors)
    return jnp.where(norm == 0, total, total / (jnp.sqrt(norm) if squared else norm))


@OPS.define("HASHTABLE_LOOKUP")
def look_up_keys(_: Any, wanted: Value, keys: Value, values: Value) -> Any:
    """Return the values of keys (zero for one that is not there), and which are there."""
    keys = jnp.asarray(keys)
    where = jnp.clip(count_below(keys, wanted), 0, keys.shape[0] - 1)
    hits = keys[where] == wanted
    rows = jnp.asarray(values)[where]
    return jnp.where(jnp.reshape(hits, (-1,) + (1,) * (rows.ndim - 1)), rows, jnp.zeros((), rows.dtype)), hits


@OPS.define("SCATTER_ND")
def scatter_nd(_: Any, indices: Value, updates: Value, shape: Value) -> Value:
    """Return zeros to which updates are added at the positions in the last dimension of ``indices``."""
    places = jnp.zeros(read_ints(shape), updates.dtype).at[_split_positions(indices)]
    return places.max(updates) if updates.dtype == bool else places.add(updates)


@OPS.define("SPARSE_TO_DENSE")
def fill_sparse(_: Any, indices: Value, shape: Value, values: Value, default: Value) -> Value:
    """Return an array of a default value with other values at some positions."""
    sizes = read_ints(shape)
    places = jnp.reshape(indices, (-1, len(sizes)))
    return jnp.full(sizes, jnp.reshape(default, ()), values.dtype).at[_split_positions(places)].set(values)


def _highest(dtype: Any) -> Any:
    return np.finfo(dtype).max if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max


_SEGMENTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "SUM": ("add", lambda _: 0), "PROD": ("multiply", lambda _: 1), "MIN": ("min", _highest),
    "MAX": ("max", lambda dtype: -np.finfo(dtype).max if dtype == np.float32 else find_lowest(dtype)),
}  # fmt: skip
"""The function that joins two elements of a segment, and the value of a segment without elements."""


def _fold_segments(x: Value, ids: Value, count: Value, method: str, start: Callable[[Any], Any]) -> Value:
    where = jnp.where(jnp.asarray(ids) < 0, read_int(count), ids)  # Those below zero are left out.
    first = jnp.full((read_int(count), *np.shape(x)[np.ndim(ids) :]), start(x.dtype), x.dtype)
    return getattr(first.at[where], method)(x, mode="drop")


for _name, (_method, _start) in _SEGMENTS.items():
    OPS.enter(
        f"UNSORTED_SEGMENT_{_name}",
        lambda _, x, ids, count, method=_method, start=_start: _fold_segments(x, ids, count, method, start),
    )


# The last of the sorted ids, which must be known, says how many sums there are.
OPS.enter("SEGMENT_SUM", lambda _, x, ids: _fold_segments(x, ids, read_ints(ids)[-1] + 1, *_SEGMENTS["SUM"]))


@OPS.define("UNIQUE")
def find_unique(_: Any, x: Value) -> Any:
    """Return the different elements of known ones in order of appearance, and the number of each."""
    values, first, inverse = np.unique(read_array(x), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return values[order], np.argsort(order)[inverse.reshape(-1)]


@OPS.define("STABLEHLO_GATHER")
def gather_windows(options: Any, x: Value, starts: Value) -> Value:
    """Return parts of ``x`` as ``stablehlo.gather`` does."""
    names = options.offsetDims, options.collapsedSliceDims, options.startIndexMap
    numbers, sizes = lax.GatherDimensionNumbers(*map(_read_tuple, names)), _read_tuple(options.sliceSizes)
    places = _move_last(starts, options.indexVectorDim)
    return lax.gather(jnp.asarray(x), places, numbers, sizes, mode="clip")


def _move_last(indices: Value, axis: int) -> Value:
    """Return indices whose vectors are in the last dimension; with an axis after that, each is a vector of one."""
    return jnp.expand_dims(indices, -1) if axis == np.ndim(indices) else jnp.moveaxis(jnp.asarray(indices), axis, -1)


@OPS.define("STABLEHLO_SCATTER")
def scatter_windows(
    options: Any, x: Value, indices: Value, updates: Value, *, run: Callable[[int, Any], list[Value]]
) -> Value:
    """Return ``x`` with parts updated as ``stablehlo.scatter`` does."""
    names = options.updateWindowDims, options.insertedWindowDims, options.scatterDimsToOperandDims
    numbers = lax.ScatterDimensionNumbers(*map(_read_tuple, names))
    pairs = [np.array([a, b]).astype(x.dtype) for a, b in ((2, 3), (3, 2))]
    answers = [run(options.updateComputationSubgraphIndex, list(pair)) for pair in pairs]
    scatter = _SCATTERS[tuple(int(answer[0]) for answer in answers)]
    return scatter(jnp.asarray(x), _move_last(indices, options.indexVectorDim), jnp.asarray(updates), numbers)


_SCATTERS: dict[tuple[int, ...], Callable[..., Any]] = {
    (5, 5): lax.scatter_add, (6, 6): lax.scatter_mul, (2, 2): lax.scatter_min, (3, 3): lax.scatter_max,
    (3, 2): lax.scatter,
}  # fmt: skip
"""The functions of JAX by what the computation makes of 2 with 3, and of 3 with 2."""
