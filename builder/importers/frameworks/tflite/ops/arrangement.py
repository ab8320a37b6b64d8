"""Operators that make, join, cut and rearrange arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.array_functions import reverse_sequences
from builder.importers.frameworks.graph_values import Value, is_known, list_axes, read_array, read_int, read_ints
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = OperatorTable()


def pad_lines(x: Value, filler: Value, widths: Iterable[Any]) -> Value:
    """Return ``x`` with (before, after, between) elements ``filler`` along each axis."""
    start = jnp.asarray(filler).astype(x.dtype).reshape(())
    return lax.pad(jnp.asarray(x), start, [tuple(map(int, width)) for width in widths])


def pad_around(x: Value, pads: Value, filler: Value = 0) -> Value:
    """Return ``x`` with ``filler`` before and after each axis."""
    return pad_lines(x, filler, [(*pair, 0) for pair in read_array(pads)])


def _swap_blocks(x: Value, counts: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Value:
    return jnp.reshape(jnp.transpose(jnp.reshape(x, counts), order), shape)


OPS.enter("SHAPE", lambda _, x: np.asarray(np.shape(x), np.int64))
OPS.enter("RANK", lambda _, x: np.asarray(np.ndim(x), np.int32))
OPS.enter("EXPAND_DIMS", lambda _, x, axis: jnp.expand_dims(x, read_int(axis)))
OPS.enter("TRANSPOSE", lambda _, x, order: jnp.transpose(x, read_ints(order)))
OPS.enter("CONCATENATION", lambda options, *inputs: jnp.concatenate(inputs, options.axis))
OPS.enter("PACK", lambda options, *inputs: jnp.stack(inputs, options.axis))
OPS.enter("TILE", lambda _, x, repeats: jnp.tile(x, read_ints(repeats)))
OPS.enter("FILL", lambda _, shape, value: jnp.full(read_ints(shape), value))
OPS.enter("BROADCAST_TO", lambda _, x, shape: jnp.broadcast_to(x, read_ints(shape)))
OPS.enter("BROADCAST_ARGS", lambda _, a, b: np.asarray(np.broadcast_shapes(tuple(read_ints(a)), tuple(read_ints(b)))))
OPS.enter("RANGE", lambda _, *bounds: np.arange(*(read_array(value).reshape(()) for value in bounds)))
OPS.enter("REVERSE_V2", lambda _, x, axes: jnp.flip(x, list_axes(axes, np.ndim(x))))


OPS.enter("RESHAPE", lambda o, x, to=None: jnp.reshape(x, read_ints(np.asarray(o.newShape) if to is None else to)))
OPS.enter("REVERSE_SEQUENCE", lambda options, x, n: reverse_sequences(x, n, options.batchDim, options.seqDim))
OPS.enter("UNPACK", lambda options, x: [*jnp.moveaxis(jnp.asarray(x), options.axis, 0)])
OPS.enter("SPLIT", lambda options, axis, x: list(jnp.split(x, options.numSplits, read_int(axis))))
OPS.enter("MATRIX_DIAG", lambda _, x: jnp.where(np.eye(np.shape(x)[-1]) > 0, x[..., None], jnp.zeros((), x.dtype)))
OPS.enter("DILATE", lambda _, x, steps, filler: pad_lines(x, filler, [(0, 0, step - 1) for step in read_ints(steps)]))
OPS.enter("PAD", lambda _, x, pads: pad_around(x, pads))
OPS.enter("PADV2", lambda _, x, pads, filler: pad_around(x, pads, filler))
OPS.enter(
    "STABLEHLO_PAD",
    lambda options, x, filler: pad_lines(
        x, filler, zip(options.edgePaddingLow, options.edgePaddingHigh, options.interiorPadding, strict=True)
    ),
)


@OPS.define("SQUEEZE")
def squeeze_axes(options: Any, x: Value) -> Value:
    """Return ``x`` without the axes given, or without all axes of size 1."""
    axes = options.squeezeDims if options.squeezeDims is not None else ()
    return jnp.squeeze(x, list_axes(np.asarray(axes, np.int64), np.ndim(x)) or None)


@OPS.define("SPLIT_V")
def split_by_sizes(_: Any, x: Value, sizes: Value, axis: Value) -> list[Value]:
    """Return parts of ``x`` along an axis; a size of -1 is what is left."""
    where, counts = read_int(axis), read_ints(sizes)
    rest = np.shape(x)[where] - sum(count for count in counts if count >= 0)
    return list(jnp.split(x, np.cumsum([rest if count < 0 else count for count in counts])[:-1], where))


@OPS.define("SLICE")
def cut_slice(_: Any, x: Value, begin: Value, size: Value) -> Value:
    """Return the part of ``x`` from ``begin`` on; a size of -1 reaches to the end."""
    if not is_known(begin):
        sizes = [n if count < 0 else count for n, count in zip(np.shape(x), read_ints(size), strict=True)]
        return lax.dynamic_slice(jnp.asarray(x), list(begin), sizes)
    starts, counts = read_ints(begin), read_ints(size)
    ends = [n if count < 0 else b + count for n, b, count in zip(np.shape(x), starts, counts, strict=True)]
    return jnp.asarray(x)[tuple(map(slice, starts, ends))]


@OPS.define("STRIDED_SLICE")
def cut_with_strides(
    options: Any, x: Value, begin: Value, end: Value, strides: Value, *, outputs: Sequence[Tensor]
) -> Value:
    """Return a slice of ``x``; bits of masks say which bounds are open and which axes are new, dropped or skipped."""
    if not is_known(begin):
        return _cut_at_unknown(options, x, begin, outputs[0].shape)
    index: list[Any] = []
    for i, (first, last, step) in enumerate(zip(*map(read_ints, (begin, end, strides)), strict=True)):
        bit = 1 << i
        if options.ellipsisMask & bit:
            index.append(Ellipsis)
        elif options.newAxisMask & bit:
            index.append(None)
        elif options.shrinkAxisMask & bit:
            index.append(first)
        else:
            start = None if options.beginMask & bit else first
            stop = None if options.endMask & bit else first + last if options.offset else last
            index.append(slice(start, stop, step))
    return jnp.asarray(x)[tuple(index)]


def _cut_at_unknown(options: Any, x: Value, begin: Value, shape: Sequence[int]) -> Value:
    """Return a slice without strides whose begin depends on a feed, and whose ``shape`` the file says."""
    sizes = list(shape)
    for i in range(np.ndim(x)):
        if options.shrinkAxisMask & 1 << i:
            sizes.insert(i, 1)
    starts = [
        0 if options.beginMask & 1 << i or i >= begin.shape[0] else jnp.where(begin[i] < 0, begin[i] + n, begin[i])
        for i, n in enumerate(np.shape(x))
    ]
    return jnp.reshape(lax.dynamic_slice(jnp.asarray(x), starts, sizes), shape)


@OPS.define("MIRROR_PAD")
def pad_with_mirror(options: Any, x: Value, pads: Value) -> Value:
    """Return ``x`` with its mirror images around it."""
    mode = "reflect" if options.mode == schema.MirrorPadMode.REFLECT else "symmetric"
    return jnp.pad(jnp.asarray(x), read_array(pads).tolist(), mode=mode)


@OPS.define("MATRIX_SET_DIAG")
def set_diagonal(_: Any, x: Value, diagonal: Value) -> Value:
    """Return matrices with another diagonal."""
    where = jnp.arange(np.shape(diagonal)[-1])
    return jnp.asarray(x).at[..., where, where].set(diagonal)


@OPS.define("DEPTH_TO_SPACE")
def move_depth_to_space(options: Any, x: Value) -> Value:
    """Return images [n, h b, w b, c / b²], for block size b."""
    (n, h, w, c), b = np.shape(x), options.blockSize
    return _swap_blocks(x, (n, h, w, b, b, c // b**2), (0, 1, 3, 2, 4, 5), (n, h * b, w * b, c // b**2))


@OPS.define("SPACE_TO_DEPTH")
def move_space_to_depth(options: Any, x: Value) -> Value:
    """Return images [n, h / b, w / b, c b²], for block size b."""
    (n, h, w, c), b = np.shape(x), options.blockSize
    return _swap_blocks(x, (n, h // b, b, w // b, b, c), (0, 1, 3, 2, 4, 5), (n, h // b, w // b, c * b**2))


@OPS.define("SPACE_TO_BATCH_ND")
def move_space_to_batch(_: Any, x: Value, block: Value, pads: Value) -> Value:
    """Return the phases of padded images as examples of their own."""
    sizes, spatial = read_ints(block), len(read_ints(block))
    padded = jnp.pad(x, [(0, 0), *read_array(pads).tolist(), *[(0, 0)] * (np.ndim(x) - 1 - spatial)])
    n, rest = padded.shape[0], padded.shape[1 + spatial :]
    parts = [part for size, b in zip(padded.shape[1:], sizes, strict=False) for part in (size // b, b)]
    inner, outer = range(2, 2 * spatial + 1, 2), range(1, 2 * spatial, 2)
    order = [*inner, 0, *outer, *range(2 * spatial + 1, 2 * spatial + 1 + len(rest))]
    return _swap_blocks(padded, (n, *parts, *rest), order, (n * int(np.prod(sizes)), *parts[::2], *rest))


@OPS.define("BATCH_TO_SPACE_ND")
def move_batch_to_space(_: Any, x: Value, block: Value, crops: Value) -> Value:
    """Return images of which examples are the phases, cropped."""
    sizes, spatial = read_ints(block), len(read_ints(block))
    (n, *dimensions), rest = np.shape(x), np.shape(x)[1 + spatial :]
    n //= int(np.prod(sizes))
    pairs = (i for d in range(spatial) for i in (spatial + 1 + d, d))
    order = [spatial, *pairs, *range(2 * spatial + 1, 2 * spatial + 1 + len(rest))]
    whole = [size * b for size, b in zip(dimensions, sizes, strict=False)]
    joined = _swap_blocks(x, (*sizes, n, *dimensions), order, (n, *whole, *rest))
    cuts = [slice(int(a), size - int(b)) for size, (a, b) in zip(whole, read_array(crops), strict=True)]
    return joined[(slice(None), *cuts)]
