"""Operators that make, shape, join and cut arrays."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from builder.importers.frameworks.graph_values import Value, list_axes, read_int, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()

_ZERO = np.zeros(1, np.float32)


def _reshape(x: Value, sizes: list[int], allowzero: int = 0) -> Value:
    """Return ``x`` in another shape; 0 keeps a dimension, unless ``allowzero``, and -1 is what is left."""
    return jnp.reshape(x, [np.shape(x)[i] if size == 0 and not allowzero else size for i, size in enumerate(sizes)])


def _squeeze(x: Value, axes: Value) -> Value:
    return jnp.squeeze(x, None if axes is None else list_axes(axes, np.ndim(x)))


def _unsqueeze(x: Value, axes: list[int]) -> Value:
    return jnp.expand_dims(x, list_axes(axes, np.ndim(x) + len(axes)))


def _make_identity(like: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    kind = like.dtype if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    rows, columns = np.shape(like)
    return np.eye(rows, columns, k=k, dtype=kind)


OPS.enter_all(
    {
        "Concat": lambda *inputs, axis: jnp.concatenate(inputs, axis),
        "ConstantOfShape": lambda shape, *, value=_ZERO: np.full(read_ints(shape), value.reshape(())),
        "Expand": lambda x, shape: jnp.broadcast_to(x, np.broadcast_shapes(np.shape(x), tuple(read_ints(shape)))),
        "EyeLike": _make_identity,
        "Flatten": lambda x, *, axis=1: jnp.reshape(
            x, (math.prod(np.shape(x)[: axis + np.ndim(x) if axis < 0 else axis]), -1)
        ),
        "Reshape": lambda x, sizes=None, *, allowzero=0, shape=None: _reshape(
            x, read_ints(sizes if shape is None else shape), allowzero
        ),
        "Shape": lambda x, *, start=0, end=None: np.asarray(np.shape(x)[start:end], np.int64),
        "Size": lambda x: np.asarray(np.prod(np.shape(x)), np.int64),
        "Squeeze": lambda x, wanted=None, *, axes=None: _squeeze(x, wanted if axes is None else axes),
        "Tile": lambda x, repeats: jnp.tile(x, read_ints(repeats)),
        "Transpose": lambda x, *, perm=None: jnp.transpose(x, perm),
        "Trilu": lambda x, k=0, *, upper=1: (jnp.triu if upper else jnp.tril)(x, read_int(k)),
        "Unsqueeze": lambda x, wanted=None, *, axes=None: _unsqueeze(x, read_ints(wanted if axes is None else axes)),
    }
)


@OPS.define("Constant")
def make_constant(*, value: Value = None, **keys: Any) -> Value:
    """Return the constant that one of the attributes holds."""
    if value is not None:
        return value
    ((name, items),) = keys.items()
    if name in ("value_string", "value_strings"):
        return np.array(items, object)
    if name not in ("value_float", "value_floats", "value_int", "value_ints"):
        raise ValueError(f"a constant of kind {name} is not supported")
    return np.asarray(items, np.float32 if "float" in name else np.int64)


@OPS.define("Split")
def split_array(x: Value, wanted: Value = None, *, axis: int = 0, outputs: int, **keys: Any) -> list[Value]:
    """Return pieces of ``x`` along ``axis``, of given sizes or of equal ones of which the last may be smaller."""
    sizes = keys.get("split") if wanted is None else read_ints(wanted)
    if sizes is None:
        count = keys.get("num_outputs") or outputs
        sizes = [-(-np.shape(x)[axis] // count)] * count
    return list(jnp.split(x, np.cumsum(sizes)[:-1], axis))


@OPS.define("Slice")
def cut_slices(x: Value, *inputs: Value, **keys: Any) -> Value:
    """Return the part of ``x`` from ``starts`` to before ``ends`` along ``axes``, which were attributes once."""
    given = (*inputs, None, None) if inputs else (*(keys.get(name) for name in ("starts", "ends", "axes")), None)
    starts, ends, axes, steps = (None if value is None else read_ints(value) for value in given[:4])
    assert starts is not None
    assert ends is not None
    index: list[Any] = [slice(None)] * np.ndim(x)
    where = range(len(starts)) if axes is None else list_axes(axes, np.ndim(x))
    for start, end, axis, step in zip(starts, ends, where, steps or [1] * len(starts), strict=True):
        index[axis] = slice(start, end, step)
    return jnp.asarray(x)[tuple(index)]


@OPS.define("Pad")
def pad_array(x: Value, *inputs: Value, mode: str = "constant", pads: Any = None, value: float = 0.0) -> Value:
    """Return ``x`` with elements added (or, where a number is negative, cut off) before and after each axis."""
    sizes, fill, axes = (pads, value, None) if pads is not None else (*inputs, None, None)[:3]
    sizes, rank = read_ints(sizes), np.ndim(x)
    widths, count = [(0, 0)] * rank, len(sizes) // 2
    for number, axis in enumerate(range(count) if axes is None else list_axes(axes, rank)):
        widths[axis] = (sizes[number], sizes[number + count])
    if mode == "constant":
        filler = jnp.asarray(0 if fill is None else fill).astype(x.dtype).reshape(())
        return lax.pad(jnp.asarray(x), filler, [(before, after, 0) for before, after in widths])
    cuts = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(np.shape(x), widths, strict=True))
    return jnp.pad(jnp.asarray(x)[cuts], [(max(lo, 0), max(hi, 0)) for lo, hi in widths], mode=mode)
