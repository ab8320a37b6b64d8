"""Operators that read and write by index."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.array_functions import encode_one_hot, reverse_sequences
from builder.importers.frameworks.graph_values import Value, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _count_from_front(indices: Value, size: int) -> Value:
    indices = jnp.asarray(indices)
    return jnp.where(indices < 0, indices + size, indices)


def _take(x: Value, indices: Value, axis: int) -> Value:
    x = jnp.asarray(x)
    return jnp.take(x, _count_from_front(indices, x.shape[axis]), axis, mode="clip")


def _find_places(x: Value, indices: Value, axis: int) -> Any:
    """Return the places in ``x`` that lie at ``indices`` along ``axis``, and elsewhere at the place of each index."""
    positions = list(jnp.indices(np.shape(indices), sparse=True))
    positions[axis] = _count_from_front(indices, np.shape(x)[axis])
    return jnp.asarray(x).at[tuple(positions)]


def _find_parts(x: Value, indices: Value) -> Any:
    """Return the parts of ``x`` at the positions in the last dimension of ``indices``."""
    indices = jnp.asarray(indices)
    return jnp.asarray(x).at[tuple(_count_from_front(indices[..., i], x.shape[i]) for i in range(indices.shape[-1]))]


_UPDATES = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}


def _update(places: Any, updates: Value, reduction: str) -> Value:
    return getattr(places, _UPDATES[reduction])(updates)


OPS.enter_all(
    {
        "Gather": lambda x, indices, *, axis=0: _take(x, indices, axis),
        "GatherElements": lambda x, indices, *, axis=0: _find_places(x, indices, axis).get(mode="clip"),
        "ScatterElements": lambda x, indices, updates, *, axis=0, reduction="none": _update(
            _find_places(x, indices, axis), updates, reduction
        ),
        "ScatterND": lambda x, indices, updates, *, reduction="none": _update(
            _find_parts(x, indices), updates, reduction
        ),
        "ReverseSequence": lambda x, lengths, *, batch_axis=1, time_axis=0: reverse_sequences(
            x, lengths, batch_axis, time_axis
        ),
    }
)
OPS["", "Scatter"] = OPS["", "ScatterElements"]


@OPS.define("GatherND")
def gather_nd(x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Return the parts of ``x`` at the positions in the last dimension of ``indices``, example by example."""

    def pick(values: Value, where: Value) -> Value:
        return _find_parts(values, where).get(mode="clip")

    for _ in range(batch_dims):
        pick = jax.vmap(pick)
    return pick(jnp.asarray(x), jnp.asarray(indices))


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
    wanted = _count_from_front(jnp.trunc(indices).astype(np.int64), size)
    return encode_one_hot(wanted, size, (values[0], values[1]), axis)
