"""Poolings over windows and over whole images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, find_lowest, read_ints
from builder.importers.frameworks.onnx.sliding_window import Window, read_window
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _read_pool(shape: Sequence[int], sizes: Sequence[int], keys: dict[str, Any]) -> Window:
    """Return the window of a pooling over an image of ``shape`` [n, c, ...].

    A window that reaches beyond the image by less than a stride is cut off there, as ONNX Runtime does.
    """
    window, pads = read_window(shape[2:], sizes, keys), []
    for size, (before, after), extent, stride in zip(
        shape[2:], window.pads, window.extents, window.strides, strict=True
    ):
        missing = max(extent - before - size - after, 0)
        if missing >= stride:
            raise ValueError(f"its window of {extent} is larger than its input of {size}: make that larger")
        pads.append((before, after + missing))
    return replace(window, pads=tuple(pads))


def _reduce_windows(x: Value, window: Window, start: Any, function: Any) -> Value:
    return lax.reduce_window(
        jnp.asarray(x),
        np.asarray(start, x.dtype),
        function,
        (1, 1, *window.sizes),
        (1, 1, *window.strides),
        [(0, 0), (0, 0), *window.pads],
        window_dilation=(1, 1, *window.dilations),
    )


@OPS.define("MaxPool")
def max_pool(x: Value, *, kernel_shape: Any, storage_order: int = 0, outputs: int, **keys: Any) -> Any:
    """Return the largest element in each window and, as a second output, its position in the flattened input."""
    window = _read_pool(np.shape(x), kernel_shape, keys)
    largest = _reduce_windows(x, window, find_lowest(x.dtype), lax.max)
    if outputs == 1:
        return largest
    shape = np.shape(x)
    places = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    if storage_order:
        spatial = np.arange(int(np.prod(shape[2:]))).reshape(shape[2:][::-1]).transpose()
        places = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * len(shape[2:])) * spatial.size + spatial
    return largest, _find_in_windows(x, largest, places, window)


def _find_in_windows(x: Value, largest: Value, places: Any, window: Window) -> Value:
    """Return the first of ``places`` in each window whose element is the largest one."""
    pads = [(0, 0, 0), (0, 0, 0), *((before, after, 0) for before, after in window.pads)]
    padded = lax.pad(jnp.asarray(x), jnp.asarray(find_lowest(x.dtype), x.dtype), pads)
    numbers = lax.pad(jnp.asarray(places), jnp.asarray(-1, places.dtype), pads)
    result = jnp.full(largest.shape, -1, np.int64)
    for tap in np.ndindex(*window.sizes):
        starts = [offset * step for offset, step in zip(tap, window.dilations, strict=True)]
        sides = zip(starts, largest.shape[2:], window.strides, strict=True)
        cut = (..., *(slice(first, first + (count - 1) * stride + 1, stride) for first, count, stride in sides))
        here = (padded[cut] == largest) & (result < 0) & (numbers[cut] >= 0)
        result = jnp.where(here, numbers[cut], result)
    return result


@OPS.define("AveragePool")
def average_pool(x: Value, *, kernel_shape: Any, count_include_pad: int = 0, **keys: Any) -> Value:
    """Return the mean of each window, over the image alone or over its padding too."""
    shape = np.shape(x)
    window = _read_pool(shape, kernel_shape, keys)
    total = _reduce_windows(x, window, 0, lax.add)
    ones = np.ones((1, 1, *shape[2:]), x.dtype)
    if count_include_pad:  # What is added for the last window by ceil_mode does not count.
        given = read_window(shape[2:], kernel_shape, {**keys, "ceil_mode": 0})
        ones = np.pad(ones, [(0, 0), (0, 0), *given.pads], constant_values=1)
        rest = tuple((0, w[1] - g[1]) for w, g in zip(window.pads, given.pads, strict=True))
        window = Window(window.sizes, window.strides, window.dilations, rest)
    counts = _reduce_windows(ones, window, 0, lax.add)
    return total / counts


@OPS.define("LpPool")
def norm_pool(x: Value, *, kernel_shape: Any, p: int = 2, **keys: Any) -> Value:
    """Return the p-norm of each window."""
    window = _read_pool(np.shape(x), kernel_shape, keys)
    return _reduce_windows(jnp.abs(x) ** p, window, 0, lax.add) ** np.asarray(1 / p, x.dtype)


def _reduce_images(function: Callable[..., Value], x: Value) -> Value:
    return function(x, tuple(range(2, np.ndim(x))), keepdims=True).astype(x.dtype)


def global_average(x: Value) -> Value:
    """Return the mean of each channel."""
    return _reduce_images(jnp.mean, x)


OPS.enter("GlobalAveragePool", global_average)
OPS.enter("GlobalLpPool", lambda x, *, p=2: _reduce_images(jnp.sum, jnp.abs(x) ** p) ** np.asarray(1 / p, x.dtype))
OPS.enter("GlobalMaxPool", lambda x: _reduce_images(jnp.max, x))


@OPS.define("MaxUnpool")
def undo_max_pool(x: Value, indices: Value, output_shape: Value = None, *, kernel_shape: Any, **keys: Any) -> Value:
    """Return zeros with each element at its position in the flattened array that MaxPool reduced."""
    shape = np.shape(x)
    window = read_window(shape[2:], kernel_shape, keys)
    inferred = [
        (size - 1) * stride - sum(pads) + extent
        for size, stride, pads, extent in zip(shape[2:], window.strides, window.pads, window.extents, strict=True)
    ]
    flat = jnp.zeros(int(np.prod([*shape[:2], *inferred])), x.dtype)
    result = flat.at[jnp.reshape(indices, -1)].set(jnp.reshape(x, -1)).reshape(*shape[:2], *inferred)
    if output_shape is None:
        return result
    whole = jnp.zeros(read_ints(output_shape), x.dtype)
    return whole.at[tuple(slice(size) for size in result.shape)].set(result)
