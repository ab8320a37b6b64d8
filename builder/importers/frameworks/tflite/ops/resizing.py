"""Operators that resize images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _list_sources(options: Any, x: Value, sizes: Value) -> Iterator[tuple[int, int, Any]]:
    """Yield the axes of rows and columns, their sizes, and the place in the image of each row and column of the result.

    With ``halfPixelCenters``, the middle of the first pixel is at 0.5.
    """
    for axis, count in zip((1, 2), read_ints(sizes), strict=True):
        aligned, size = int(options.alignCorners and count > 1), np.shape(x)[axis]
        scale = np.float32(size - aligned) / np.float32(count - aligned)
        yield axis, size, (np.arange(count, dtype=np.float32) + np.float32(options.halfPixelCenters) / 2) * scale


@OPS.define("RESIZE_BILINEAR")
def resize_bilinear(options: Any, x: Value, sizes: Value) -> Value:
    """Return images of other sizes, interpolated between the nearest two rows and columns."""
    result = jnp.asarray(x)
    for axis, size, places in _list_sources(options, x, sizes):
        places = np.clip(places - np.float32(options.halfPixelCenters) / 2, 0, None)
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
    for axis, size, places in _list_sources(options, x, sizes):
        nearest = np.floor(places + np.float32(options.alignCorners) / 2)
        result = jnp.take(result, np.clip(nearest, 0, size - 1).astype(int), axis)
    return result
