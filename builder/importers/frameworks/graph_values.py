"""Values of a graph that is read: NumPy arrays where they are known, and arrays that JAX traces elsewhere."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Value = Any


def is_known(*values: Value) -> bool:
    """Say whether no value depends on a feed; an input that is left out is known."""
    return not any(isinstance(value, jax.core.Tracer) for value in values)


def read_array(value: Value) -> Any:
    """Return a known value as a NumPy array. Raises ValueError if it depends on a feed."""
    if not is_known(value):
        raise ValueError(
            "a size, an axis or a number of repetitions depends on the values of an input. Export the model with fixed "
            "sizes, or compute that outside of it."
        )
    return np.asarray(value)


def read_ints(value: Value) -> list[int]:
    """Return the elements of a known value as integers. Raises ValueError if it depends on a feed."""
    return [int(item) for item in read_array(value).reshape(-1)]


def read_int(value: Value) -> int:
    """Return the only element of a known value as an integer. Raises ValueError if it depends on a feed."""
    (item,) = read_ints(value)
    return item


def find_lowest(dtype: Any) -> Any:
    """Return what no number of a type is less than: minus infinity, the least integer, or False."""
    if np.dtype(dtype).kind == "b":
        return False
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).min


def find_highest(dtype: Any) -> Any:
    """Return what no number of a type is more than: infinity, the largest integer, or True."""
    if np.dtype(dtype).kind == "b":
        return True
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max


def spread_channels(values: Value, rank: int, axis: int = 1) -> Value:
    """Return a value for each index of ``axis`` as it applies to an array of ``rank`` dimensions."""
    return jnp.reshape(values, [-1 if number == axis % rank else 1 for number in range(rank)])


def list_axes(axes: Value, rank: int) -> tuple[int, ...]:
    """Return ``axes`` (integers or a known array) counted from the front of ``rank`` dimensions, each once."""
    return tuple(dict.fromkeys(axis + rank if axis < 0 else axis for axis in read_ints(axes)))
