"""Convolutions, transposed, deformable and of integers, and what is made of their columns."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, read_ints, spread_channels
from builder.importers.frameworks.onnx.ops.image_sampling import read_corners
from builder.importers.frameworks.onnx.ops.linear import subtract_zero_point
from builder.importers.frameworks.onnx.sliding_window import (
    Window,
    flip_kernel,
    read_window,
)
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def add_bias(x: Value, bias: Value) -> Value:
    """Return ``x`` [n, c, ...] with a bias for each channel, if there is one."""
    return x if bias is None else x + spread_channels(bias, np.ndim(x))


def convolve_window(
    x: Value, kernel: Value, window: Window, groups: int, dilation: tuple[int, ...] | None = None
) -> Value:
    """Return the convolution of ``x`` [n, c, ...] with ``kernel`` [o, c / groups, ...]."""
    return lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.asarray(kernel),
        window.strides,
        window.pads,
        lhs_dilation=dilation,
        rhs_dilation=window.dilations,
        feature_group_count=groups,
    )


@OPS.define("Conv")
def convolve_images(x: Value, kernel: Value, bias: Value = None, *, group: int = 1, **keys: Any) -> Value:
    """Return the convolution, with a bias for each channel."""
    window = read_window(np.shape(x)[2:], np.shape(kernel)[2:], keys)
    if min(window.count_places(np.shape(x)[2:])) < 1:
        raise ValueError(f"its kernel {window.extents} is larger than its input {np.shape(x)[2:]}: make that larger")
    return add_bias(convolve_window(x, kernel, window, group), bias)


@OPS.define("ConvTranspose")
def transposed_convolution(x: Value, kernel: Value, bias: Value = None, *, group: int = 1, **keys: Any) -> Value:
    """Return the transposed convolution: each element of ``x`` adds the kernel times itself to the result."""
    shape, sizes = np.shape(x)[2:], np.shape(kernel)[2:]
    rank = len(sizes)
    mode = keys.pop("auto_pad", "NOTSET")
    window = read_window(shape, sizes, keys)
    extra, output_shape = list(keys.get("output_padding") or [0] * rank), keys.get("output_shape")
    pads = list(window.pads)
    if output_shape is None and mode.startswith("SAME"):
        output_shape = [size * stride for size, stride in zip(shape, window.strides, strict=True)]
    if output_shape is not None:
        for i, size in enumerate(output_shape[-rank:]):
            total = window.strides[i] * (shape[i] - 1) + extra[i] + window.extents[i] - size
            less, more = total // 2, total - total // 2
            pads[i] = (less, more) if mode == "SAME_UPPER" else (more, less)
            if total < 0:
                extra[i], pads[i] = extra[i] - total, (0, 0)
    outer = tuple(
        (extent - 1 - before, extent - 1 - after + more)
        for extent, (before, after), more in zip(window.extents, pads, extra, strict=True)
    )
    dilated = Window(window.sizes, (1,) * rank, window.dilations, outer)
    return add_bias(convolve_window(x, flip_kernel(kernel, group), dilated, group, window.strides), bias)


@OPS.define("ConvInteger")
def integer_convolution(x: Value, kernel: Value, x_zero: Value = None, kernel_zero: Value = None, **keys: Any) -> Value:
    """Return the convolution of 8-bit integers less their zero points, as int32."""
    return convolve_images(subtract_zero_point(x, x_zero, 0), subtract_zero_point(kernel, kernel_zero, 0), **keys)


@OPS.define("Col2Im")
def add_columns(x: Value, image_shape: Value, block_shape: Value, **keys: Any) -> Value:
    """Return the image [n, c, ...] to which each column [n, c × block, places] is added at its place."""
    image, block = read_ints(image_shape), read_ints(block_shape)
    window = read_window(image, block, keys)
    places = window.count_places(image)
    n, rank = np.shape(x)[0], len(image)
    channels = np.shape(x)[1] // int(np.prod(block))
    columns = jnp.reshape(x, (n, channels, *block, *places))
    where = [
        np.expand_dims(
            np.arange(block[i])[:, None] * window.dilations[i] + np.arange(places[i]) * window.strides[i],
            [d for d in range(2 * rank) if d not in (i, rank + i)],
        )
        for i in range(rank)
    ]
    padded = [size + sum(pads) for size, pads in zip(image, window.pads, strict=True)]
    result = jnp.zeros((n, channels, *padded), x.dtype).at[(slice(None), slice(None), *where)].add(columns)
    inner = [slice(before, before + size) for size, (before, _) in zip(image, window.pads, strict=True)]
    return result[(slice(None), slice(None), *inner)]


@OPS.define("DeformConv")
def deformable_convolution(
    x: Value, kernel: Value, offset: Value, bias: Value = None, mask: Value = None, **keys: Any
) -> Value:
    """Return the convolution that reads each element of the window at an offset of its own, bilinearly."""
    group, offset_group = keys.get("group", 1), keys.get("offset_group", 1)
    n, channels, *shape = np.shape(x)
    window = read_window(shape, np.shape(kernel)[2:], keys)
    taps, (rows, columns) = int(np.prod(window.sizes)), np.shape(offset)[2:]
    moved = jnp.reshape(offset, (n, offset_group, taps, 2, rows, columns))
    steps = [np.arange(size) * step for size, step in zip(window.sizes, window.dilations, strict=True)]
    starts = [
        np.arange(count) * stride - pads[0]
        for count, stride, pads in zip((rows, columns), window.strides, window.pads, strict=True)
    ]
    grid = np.stack(np.meshgrid(*steps, indexing="ij")).reshape(2, taps, 1, 1)
    start = np.stack(np.meshgrid(*starts, indexing="ij"))[:, None]
    places = jnp.moveaxis(moved, 3, 0) + (grid + start).astype(x.dtype)[:, None, None]
    images = jnp.reshape(x, (n, offset_group, channels // offset_group, *shape))
    values: Any = sum(read_corners(images, places[0], places[1]))
    if mask is not None:
        values = values * jnp.reshape(mask, (n, offset_group, 1, taps, rows, columns))
    values = values.reshape(n, group, channels // group, taps, rows, columns)
    weights = jnp.reshape(kernel, (group, np.shape(kernel)[0] // group, channels // group, taps))
    result = jnp.einsum("ngcthw,goct->ngohw", values, weights)
    return add_bias(result.reshape(n, -1, rows, columns), bias)
