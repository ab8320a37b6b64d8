"""Operators that read and write by index, or whose result has a size that depends on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, read_array, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _count_from_front(indices: Value, size: int) -> Value:
    indices = jnp.asarray(indices)
    return jnp.where(indices < 0, indices + size, indices)


@OPS.define("Gather")
def gather_slices(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Return the parts of ``x`` at ``indices`` along ``axis``."""
    x = jnp.asarray(x)
    return jnp.take(x, _count_from_front(indices, x.shape[axis]), axis, mode="clip")


@OPS.define("GatherElements")
def gather_elements(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Return, at each place, the element of ``x`` whose position along ``axis`` is the index at that place."""
    x, axis = jnp.asarray(x), axis % np.ndim(x)
    positions = list(jnp.indices(np.shape(indices), sparse=True))
    positions[axis] = _count_from_front(indices, x.shape[axis])
    return x.at[tuple(positions)].get(mode="clip")


def _split_positions(indices: Value, shape: Any) -> tuple[Value, ...]:
    """Return the positions for each of the leading dimensions of ``shape``, from the last dimension of ``indices``."""
    indices = jnp.asarray(indices)
    return tuple(_count_from_front(indices[..., i], shape[i]) for i in range(indices.shape[-1]))


@OPS.define("GatherND")
def gather_nd(x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Return the parts of ``x`` at the positions in the last dimension of ``indices``."""

    def pick(values: Value, where: Value) -> Value:
        return values.at[_split_positions(where, values.shape)].get(mode="clip")

    for _ in range(batch_dims):
        pick = jax.vmap(pick)
    return pick(jnp.asarray(x), jnp.asarray(indices))


_UPDATES: dict[str, str] = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}


@OPS.define("Scatter", "ScatterElements")
def scatter_elements(x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    """Return ``x`` with each update at the position along ``axis`` that the index at its place says."""
    x, axis = jnp.asarray(x), axis % np.ndim(x)
    positions = list(jnp.indices(np.shape(indices), sparse=True))
    positions[axis] = _count_from_front(indices, x.shape[axis])
    return getattr(x.at[tuple(positions)], _UPDATES[reduction])(updates)


@OPS.define("ScatterND")
def scatter_nd(x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Return ``x`` with the updates at the positions in the last dimension of ``indices``."""
    x = jnp.asarray(x)
    return getattr(x.at[_split_positions(indices, x.shape)], _UPDATES[reduction])(updates)


@OPS.define("TensorScatter")
def write_cache(cache: Value, update: Value, positions: Value = None, *, axis: int = -2, mode: str = "linear") -> Value:
    """Return ``cache`` with ``update`` written along ``axis`` from the position of each example on."""
    axis = axis % np.ndim(cache)
    size, length = np.shape(cache)[axis], np.shape(update)[axis]
    start = jnp.zeros(np.shape(cache)[0], np.int64) if positions is None else jnp.asarray(positions)

    def write(old: Value, new: Value, first: Value) -> Value:
        where = first + jnp.arange(length)
        where = where % size if mode == "circular" else where
        return jnp.moveaxis(jnp.moveaxis(old, axis - 1, 0).at[where].set(jnp.moveaxis(new, axis - 1, 0)), 0, axis - 1)

    return jax.vmap(write)(jnp.asarray(cache), jnp.asarray(update), start)


@OPS.define("OneHot")
def one_hot(indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """Return ``values[1]`` at the position of each index along a new axis of ``depth``, ``values[0]`` elsewhere."""
    size = read_int(depth)
    axis = axis + np.ndim(indices) + 1 if axis < 0 else axis
    places = jnp.arange(size).reshape([-1 if i == axis else 1 for i in range(np.ndim(indices) + 1)])
    wanted = jnp.expand_dims(_count_from_front(jnp.trunc(indices).astype(np.int64), size), axis)
    return jnp.where(places == wanted, values[1], values[0])


@OPS.define("ReverseSequence")
def reverse_sequences(x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    """Return ``x`` with the first ``lengths`` elements of each sequence reversed in time."""
    x = jnp.moveaxis(jnp.asarray(x), (batch_axis, time_axis), (0, 1))
    times = jnp.arange(x.shape[1])[None, :]
    count = jnp.asarray(lengths)[:, None]
    where = jnp.where(times < count, count - 1 - times, times)
    result = jnp.take_along_axis(x, where.reshape(where.shape + (1,) * (x.ndim - 2)), 1)
    return jnp.moveaxis(result, (0, 1), (batch_axis, time_axis))


def _on_known(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` of NumPy arrays for values that must be known, since they decide the size of its result."""

    def compute(*inputs: Value, **keys: Any) -> Any:
        return function(*(None if value is None else read_array(value) for value in inputs), **keys)

    return compute


def _find_nonzero(x: Any) -> Any:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)


def _compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    return np.compress(condition, x, axis)


def _find_unique(x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    values, first, inverse, counts = np.unique(x, True, True, True, axis)
    if not sorted:
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return values, first.astype(np.int64), inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)


OPS.enter("NonZero", _on_known(_find_nonzero))
OPS.enter("Compress", _on_known(_compress))
OPS.enter("Unique", _on_known(_find_unique))


@OPS.define("NonMaxSuppression")
def suppress_boxes(
    boxes: Value,
    scores: Value,
    max_boxes: Value = None,
    iou_threshold: Value = None,
    score_threshold: Value = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Return [batch, class, box] of the boxes that are kept, of known boxes [n, b, 4] and scores [n, classes, b]."""
    boxes, scores = read_array(boxes), read_array(scores)
    limit = 0 if max_boxes is None else read_int(max_boxes)
    overlap = 0.0 if iou_threshold is None else float(read_array(iou_threshold).reshape(()))
    least = -np.inf if score_threshold is None else float(read_array(score_threshold).reshape(()))
    if center_point_box:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        corners = np.concatenate([middle - half, middle + half], -1)
    else:
        corners = np.concatenate(
            [np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], -1
        )
    kept = [
        (batch, number, box)
        for batch in range(scores.shape[0])
        for number in range(scores.shape[1])
        for box in _choose_boxes(corners[batch], scores[batch, number], limit, overlap, least)
    ]
    return np.asarray(kept, np.int64).reshape(-1, 3)


def _choose_boxes(corners: Any, scores: Any, limit: int, overlap: float, least: float) -> list[int]:
    chosen: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(chosen) >= limit or scores[box] <= least:
            break
        if all(_intersect(corners[box], corners[other]) <= overlap for other in chosen):
            chosen.append(int(box))
    return chosen


def _intersect(a: Any, b: Any) -> float:
    """Return the intersection of two boxes over their union."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    common = float(np.prod(sides))
    union = float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - common
    return common / union if union > 0 else 0.0
