"""Operators that resize images."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def find_sources(size: int, count: int, options: Any) -> Any:
    """Return the place, in an image of ``size`` pixels, of each of the ``count`` pixels of the resized one.

    With ``halfPixelCenters``, the middle of the first pixel is at 0.5.
    """
    scale = np.float32(size - 1) / np.float32(count - 1) if options.alignCorners and count > 1 else None
    scale = np.float32(size) / np.float32(count) if scale is None else scale
    return (np.arange(count, dtype=np.float32) + np.float32(0.5 if options.halfPixelCenters else 0)) * scale


@OPS.define("RESIZE_BILINEAR")
def resize_bilinear(options: Any, x: Value, sizes: Value) -> Value:
    """Return images of other sizes, interpolated between the nearest two rows and columns."""
    result = jnp.asarray(x)
    for axis, count in zip((1, 2), read_ints(sizes), strict=True):
        size = np.shape(x)[axis]
        places = find_sources(size, count, options)
        places = np.clip(places - np.float32(0.5 if options.halfPixelCenters else 0), 0, None)
        first = np.minimum(np.floor(places), size - 1).astype(int)
        second = np.minimum(first + 1, size - 1)
        weight = (places - first).astype(np.float32).reshape([-1 if d == axis else 1 for d in range(4)])
        lower, upper = jnp.take(result, first, axis), jnp.take(result, second, axis)
        result = lower * (1 - weight) + upper * weight
    return result


@OPS.define("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(options: Any, x: Value, sizes: Value) -> Value:
    """Return images of other sizes, whose pixels are the nearest ones."""
    result = jnp.asarray(x)
    for axis, count in zip((1, 2), read_ints(sizes), strict=True):
        size = np.shape(x)[axis]
        places = find_sources(size, count, options)
        places = np.floor(places + np.float32(0.5 if options.alignCorners else 0))
        result = jnp.take(result, np.clip(places, 0, size - 1).astype(int), axis)
    return result
