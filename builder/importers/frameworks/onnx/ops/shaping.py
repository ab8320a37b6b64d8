"""Operators that make, shape, join and cut arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from builder.importers.frameworks.graph_values import Value, list_axes, read_array, read_int, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


@OPS.define("Constant")
def make_constant(*, value: Value = None, **keys: Any) -> Value:
    """Return the constant that one of the attributes holds."""
    if value is not None:
        return value
    ((name, items),) = keys.items()
    if name in ("value_float", "value_floats"):
        return np.asarray(items, np.float32)
    if name in ("value_int", "value_ints"):
        return np.asarray(items, np.int64)
    raise ValueError(f"a constant of kind {name} is not supported")


@OPS.define("ConstantOfShape")
def fill_array(shape: Value, *, value: Value = None) -> Value:
    """Return an array of ``shape`` whose elements are all ``value``, or float32 zeros."""
    value = np.zeros(1, np.float32) if value is None else value
    return np.full(read_ints(shape), value.reshape(-1)[0], value.dtype)


@OPS.define("EyeLike")
def make_identity(like: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Return a matrix of the shape of ``like`` with ones on its ``k``-th diagonal."""
    kind = like.dtype if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    rows, columns = np.shape(like)
    return np.eye(rows, columns, k=k).astype(kind)


@OPS.define("Range")
def count_up(start: Value, limit: Value, delta: Value, **_: Any) -> Value:
    """Return the numbers from ``start`` to before ``limit`` in steps of ``delta``."""
    first, end, step = (read_array(value).reshape(()) for value in (start, limit, delta))
    count = max(int(np.ceil((end - first) / step)), 0)
    return (first + np.arange(count, dtype=np.asarray(first).dtype) * step).astype(start.dtype)


@OPS.define("Shape")
def read_shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """Return the sizes of dimensions ``start`` to ``end``."""
    return np.asarray(np.shape(x)[start:end], np.int64)


@OPS.define("Size")
def count_elements(x: Value) -> Value:
    """Return the number of elements."""
    return np.asarray(np.prod(np.shape(x)), np.int64)


@OPS.define("Reshape")
def reshape_array(x: Value, shape_input: Value = None, *, allowzero: int = 0, shape: Any = None) -> Value:
    """Return ``x`` in another shape; 0 keeps a dimension, unless ``allowzero``, and -1 is what is left."""
    sizes = read_ints(shape_input) if shape_input is not None else list(shape)
    return jnp.reshape(x, [np.shape(x)[i] if size == 0 and not allowzero else size for i, size in enumerate(sizes)])


@OPS.define("Flatten")
def flatten_array(x: Value, *, axis: int = 1) -> Value:
    """Return a matrix whose rows are the dimensions before ``axis``."""
    axis = axis + np.ndim(x) if axis < 0 else axis
    return jnp.reshape(x, (int(np.prod(np.shape(x)[:axis])), int(np.prod(np.shape(x)[axis:]))))


@OPS.define("Transpose")
def transpose_array(x: Value, *, perm: Any = None) -> Value:
    """Return ``x`` with its dimensions in the order ``perm``, or reversed."""
    return jnp.transpose(x, perm)


@OPS.define("Squeeze")
def squeeze_axes(x: Value, axes_input: Value = None, *, axes: Any = None) -> Value:
    """Return ``x`` without dimensions of size one, those of ``axes`` or all."""
    chosen = axes_input if axes_input is not None else axes
    return jnp.squeeze(x, None if chosen is None else list_axes(np.asarray(chosen), np.ndim(x)))


@OPS.define("Unsqueeze")
def unsqueeze_axes(x: Value, axes_input: Value = None, *, axes: Any = None) -> Value:
    """Return ``x`` with further dimensions of size one at ``axes`` of the result."""
    chosen = read_ints(axes_input if axes_input is not None else np.asarray(axes))
    return jnp.expand_dims(x, list_axes(np.asarray(chosen), np.ndim(x) + len(chosen)))


@OPS.define("Expand")
def broadcast_array(x: Value, shape: Value) -> Value:
    """Return ``x`` broadcast with ``shape``, in both directions."""
    return jnp.broadcast_to(x, np.broadcast_shapes(np.shape(x), tuple(read_ints(shape))))


@OPS.define("Tile")
def tile_array(x: Value, repeats: Value) -> Value:
    """Return ``x`` repeated along each dimension."""
    return jnp.tile(x, read_ints(repeats))


@OPS.define("Concat")
def join_arrays(*inputs: Value, axis: int) -> Value:
    """Return the inputs one after the other along ``axis``."""
    return jnp.concatenate(inputs, axis)


@OPS.define("Split")
def split_array(
    x: Value,
    sizes_input: Value = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    split: Any = None,
    outputs: int,
) -> list[Value]:
    """Return pieces of ``x`` along ``axis``, of given sizes or of equal ones of which the last may be smaller."""
    sizes = read_ints(sizes_input) if sizes_input is not None else split
    total, count = np.shape(x)[axis], num_outputs or outputs
    if sizes is None:
        piece = -(-total // count)
        sizes = [max(min(piece, total - piece * number), 0) for number in range(count)]
    return list(jnp.split(x, np.cumsum(sizes)[:-1], axis))


@OPS.define("Slice")
def cut_slices(
    x: Value,
    starts_input: Value = None,
    ends_input: Value = None,
    axes_input: Value = None,
    steps: Value = None,
    *,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
) -> Value:
    """Return the part of ``x`` from ``starts`` to before ``ends`` along ``axes``."""
    axes = axes_input if axes_input is not None else axes
    ends = read_ints(ends_input) if ends_input is not None else ends
    starts = read_ints(starts_input) if starts_input is not None else starts
    where = list_axes(np.asarray(axes), np.ndim(x)) if axes is not None else range(len(starts))
    strides = read_ints(steps) if steps is not None else [1] * len(starts)
    index: list[Any] = [slice(None)] * np.ndim(x)
    for start, end, axis, step in zip(starts, ends, where, strides, strict=True):
        size = np.shape(x)[axis]
        first = min(max(start + size if start < 0 else start, 0), size if step > 0 else size - 1)
        stop = end + size if end < 0 else end
        index[axis] = slice(first, min(stop, size) if stop >= 0 else (0 if step > 0 else None), step)
    return jnp.asarray(x)[tuple(index)]


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@OPS.define("Pad")
def pad_array(
    x: Value,
    pads_input: Value = None,
    fill_value: Value = None,
    axes: Value = None,
    *,
    mode: str = "constant",
    pads: Any = None,
    value: float = 0.0,
) -> Value:
    """Return ``x`` with elements added (or, where a number is negative, cut off) before and after each axis."""
    sizes = read_ints(pads_input) if pads_input is not None else list(pads)
    rank, count = np.ndim(x), len(sizes) // 2
    widths = [(0, 0)] * rank
    for number, axis in enumerate(list_axes(axes, rank) if axes is not None else range(count)):
        widths[axis] = (sizes[number], sizes[number + count])
    filler = jnp.asarray(value if fill_value is None else fill_value).astype(x.dtype).reshape(())
    if mode == "constant":
        return lax.pad(jnp.asarray(x), filler, [(before, after, 0) for before, after in widths])
    cuts = tuple(slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(np.shape(x), widths, strict=True))
    return jnp.pad(jnp.asarray(x)[cuts], [(max(lo, 0), max(hi, 0)) for lo, hi in widths], mode=_PAD_MODES[mode])


@OPS.define("DepthToSpace")
def move_depth_to_space(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Return [n, c/b², h b, w b] of [n, c, h, w]."""
    n, c, h, w = np.shape(x)
    if mode == "DCR":
        parts = jnp.reshape(x, (n, blocksize, blocksize, c // blocksize**2, h, w)).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = jnp.reshape(x, (n, c // blocksize**2, blocksize, blocksize, h, w)).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // blocksize**2, h * blocksize, w * blocksize)


@OPS.define("SpaceToDepth")
def move_space_to_depth(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Return [n, c b², h/b, w/b] of [n, c, h, w]."""
    n, c, h, w = np.shape(x)
    parts = jnp.reshape(x, (n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.transpose(order).reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


@OPS.define("Trilu")
def keep_triangle(x: Value, k: Value = None, *, upper: int = 1) -> Value:
    """Return ``x`` with zeros below (or above) its ``k``-th diagonal."""
    offset = 0 if k is None else read_int(k)
    return jnp.triu(x, offset) if upper else jnp.tril(x, offset)
