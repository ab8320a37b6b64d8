"""Operators that read images between their elements: resizing, sampling on a grid, regions of interest."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, list_axes, read_array, read_ints, spread_channels
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def read_corners(images: Value, rows: Value, columns: Value) -> list[Value]:
    """Return four arrays [..., c, *places], the sum of which is ``images`` [..., c, h, w] between their elements.

    ``rows`` and ``columns`` are fractional [..., *places]. Outside of the image there are zeros.
    """
    lead, (height, width) = images.ndim - 3, images.shape[-2:]
    flat = images.reshape(*images.shape[:-2], height * width)
    top, left = jnp.floor(rows), jnp.floor(columns)
    corners = []
    for down, right in itertools.product((0, 1), (0, 1)):
        y, x = top + down, left + right
        weight = (1 - jnp.abs(rows - y)) * (1 - jnp.abs(columns - x))
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        index = (jnp.clip(y, 0, height - 1) * width + jnp.clip(x, 0, width - 1)).astype(np.int64)
        picked = jnp.take_along_axis(flat, index.reshape(*index.shape[:lead], 1, -1), -1)
        picked = picked.reshape(*picked.shape[:-1], *index.shape[lead:])
        corners.append(picked * jnp.expand_dims(jnp.where(inside, weight, 0), lead).astype(images.dtype))
    return corners


def _cubic(distance: Any, a: float, module: Any = np) -> Any:
    """Return the weight of an element at a distance, by Keys' cubic convolution with the coefficient ``a``."""
    x = module.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return module.where(x <= 1, near, module.where(x < 2, far, 0))


_SOURCES: dict[str, Callable[..., Any]] = {
    "half_pixel": lambda i, n, m, scale, lo, hi: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, n, m, scale, lo, hi: n / 2 * (1 - math.floor(m) / m) + (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, n, m, scale, lo, hi: (i + 0.5) / scale - 0.5 if m > 1 else i * 0,
    "align_corners": lambda i, n, m, scale, lo, hi: i * (n - 1) / max(math.floor(m) - 1, 1),
    "asymmetric": lambda i, n, m, scale, lo, hi: i / scale,
    "tf_half_pixel_for_nn": lambda i, n, m, scale, lo, hi: (i + 0.5) / scale,
    "tf_crop_and_resize": lambda i, n, m, scale, lo, hi: (
        (n - 1) * (lo + i * (hi - lo) / (math.floor(m) - 1) if math.floor(m) > 1 else i * 0 + (lo + hi) / 2)
    ),
}
"""The place in the source of element ``i`` of the result, by the coordinate transformation mode.

``n``: the size of the source. ``m``: that of the result before it is rounded. ``lo``, ``hi``: the region of interest.
"""

_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


def _make_weights(places: Any, size: int, scale: float, keys: dict[str, Any]) -> Any:
    """Return the matrix [results, size] of the weights of the source for each of ``places``."""
    mode, stretch = keys["mode"], min(scale, 1.0) if keys["antialias"] else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) / stretch)
    offsets = np.arange(-reach + 1, reach + 1)
    source = np.floor(places)[:, None].astype(int) + offsets
    distance = (source - places[:, None]) * stretch
    weights = _cubic(distance, keys["cubic_coeff_a"]) if mode == "cubic" else np.maximum(1 - np.abs(distance), 0)
    if keys["exclude_outside"]:
        weights = np.where((source < 0) | (source >= size), 0, weights)
    if keys["exclude_outside"] or keys["antialias"]:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(places), size))
    np.add.at(matrix, (np.arange(len(places))[:, None], np.clip(source, 0, size - 1)), weights)
    return matrix


def _find_sizes(
    shape: Sequence[int], scales: Value, sizes: Value, policy: str
) -> tuple[list[int], list[float], list[float]]:
    """Return the sizes of the result, the scales, and the sizes before they are rounded."""
    if scales is not None and np.size(scales):
        factors = [float(item) for item in read_array(scales).reshape(-1)]
        exact = [n * factor for n, factor in zip(shape, factors, strict=True)]
        return [math.floor(size) for size in exact], factors, exact
    wanted = read_ints(sizes)
    factors = [size / n for n, size in zip(shape, wanted, strict=True)]
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(factors)
        wanted = [math.floor(n * factor + 0.5) for n in shape]
    return wanted, factors, [float(size) for size in wanted]


@OPS.define("Resize")
def resize_image(x: Value, *inputs: Value, axes: Any = None, opset: int = 13, **given: Any) -> Value:
    """Return ``x`` resized along ``axes``, by scales or to sizes."""
    keys = {
        "mode": "nearest", "antialias": 0, "exclude_outside": 0, "cubic_coeff_a": -0.75, "extrapolation_value": 0.0,
        "nearest_mode": "round_prefer_floor", "coordinate_transformation_mode": "half_pixel",
        "keep_aspect_ratio_policy": "stretch", **given,
    }  # fmt: skip
    if opset < 11:
        inputs = (None, *inputs)
        keys |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    roi, scales, sizes = (*inputs, None, None, None)[:3]
    where = tuple(range(np.ndim(x))) if axes is None else list_axes(axes, np.ndim(x))
    shape = [np.shape(x)[axis] for axis in where]
    wanted, factors, exact = _find_sizes(shape, scales, sizes, keys["keep_aspect_ratio_policy"])
    crops = keys["coordinate_transformation_mode"] == "tf_crop_and_resize"
    regions = read_array(roi).reshape(2, -1).T.astype(float) if crops else [(0.0, 1.0)] * len(where)
    result = jnp.asarray(x)
    for number, axis in enumerate(where):
        size, factor = shape[number], factors[number]
        if wanted[number] == size and factor == 1 and not crops:
            continue
        places = _SOURCES[keys["coordinate_transformation_mode"]](
            np.arange(wanted[number], dtype=float), size, exact[number], factor, *regions[number]
        )
        result = _resize_axis(result, axis, places, factor, keys)
        if crops:
            outside = spread_channels((places < 0) | (places > size - 1), np.ndim(x), axis)
            result = jnp.where(outside, np.asarray(keys["extrapolation_value"], x.dtype), result)
    return result


def _resize_axis(x: Value, axis: int, places: Any, factor: float, keys: dict[str, Any]) -> Value:
    """Return ``x`` read at fractional ``places`` along ``axis``."""
    if keys["mode"] == "nearest":
        return jnp.take(x, np.clip(_ROUNDINGS[keys["nearest_mode"]](places), 0, x.shape[axis] - 1).astype(int), axis)
    matrix = _make_weights(places, x.shape[axis], factor, keys)
    kind = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else np.float64
    mixed = jnp.tensordot(x.astype(kind), matrix.astype(kind), ([axis], [1]))
    return jnp.moveaxis(mixed if kind == x.dtype else jnp.trunc(mixed).astype(x.dtype), -1, axis)


@OPS.define("Upsample")
def upsample_image(x: Value, wanted: Value = None, *, mode: str = "nearest", scales: Any = None) -> Value:
    """Return ``x`` made larger by factors."""
    return resize_image(x, np.asarray(scales, np.float32) if wanted is None else wanted, mode=mode, opset=10)


def _reflect(places: Value, low: float, high: float) -> Value:
    """Return ``places`` reflected at both bounds as often as needed."""
    span = high - low
    if span <= 0:
        return jnp.zeros_like(places) + low
    turned = jnp.abs(places - low) % (2 * span)
    return jnp.where(turned > span, 2 * span - turned, turned) + low


@OPS.define("GridSample")
def sample_grid(
    x: Value, grid: Value, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Value:
    """Return ``x`` [n, c, *spatial] at the places of ``grid`` [n, *out, d], each from -1 to 1, in reverse order."""
    x, grid = jnp.asarray(x), jnp.asarray(grid)
    mode = mode.removeprefix("bi")
    taps: list[list[tuple[Any, Any, Any]]] = []
    for number, size in enumerate(x.shape[2:]):
        g = grid[..., x.ndim - 3 - number]
        places = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        bounds = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if padding_mode == "border" and mode != "cubic":
            places = jnp.clip(places, 0, size - 1)
        elif padding_mode == "reflection" and mode != "cubic":
            places = _reflect(places, *bounds)
        taps.append([_read_tap(tap, weight, size, padding_mode, bounds) for tap, weight in _list_taps(places, mode)])
    result: Any = 0
    batch = jnp.arange(x.shape[0]).reshape(-1, *[1] * (grid.ndim - 2))
    channels_last = jnp.moveaxis(x, 1, -1)
    for combination in itertools.product(*taps):
        picked = channels_last[(batch, *(index for index, _, _ in combination))]
        weight, inside = math.prod(w for _, w, _ in combination), math.prod(i for _, _, i in combination)
        result = result + picked * (weight * inside)[..., None].astype(x.dtype)
    return jnp.moveaxis(result, -1, 1)


def _list_taps(places: Value, mode: str) -> list[tuple[Value, Value]]:
    """Return the elements that each place reads, and their weights."""
    if mode == "nearest":
        return [(jnp.round(places), jnp.ones_like(places))]
    first = jnp.floor(places)
    if mode == "linear":
        return [(first, first + 1 - places), (first + 1, places - first)]
    return [(first + i, _cubic(places - first - i, -0.75, jnp)) for i in range(-1, 3)]


def _read_tap(
    tap: Value, weight: Value, size: int, padding_mode: str, bounds: tuple[float, float]
) -> tuple[Value, Value, Value]:
    """Return the index, the weight and whether the element counts."""
    inside = jnp.ones_like(weight)
    if padding_mode == "zeros":
        inside = ((tap >= 0) & (tap <= size - 1)).astype(weight.dtype)
    elif padding_mode == "reflection":
        tap = _reflect(tap, *bounds)
    return jnp.clip(jnp.round(tap), 0, size - 1).astype(np.int64), weight, inside


@OPS.define("RoiAlign")
def align_regions(x: Value, rois: Value, batches: Value, *, opset: int = 16, **keys: Any) -> Value:
    """Return the mean, or the largest, of samples in each cell of each region [x1, y1, x2, y2] of interest."""
    half = keys.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" and opset >= 16
    ratio, sides = keys.get("sampling_ratio", 0), [keys.get(f"output_{side}", 1) for side in ("height", "width")]
    corners = jnp.asarray(rois) * keys.get("spatial_scale", 1.0) - (0.5 if half else 0.0)
    axes = []
    for number, (cells, size) in enumerate(zip(sides, np.shape(x)[2:], strict=True)):
        first, last = corners[:, 1 - number], corners[:, 3 - number]
        cell = (last - first if half else jnp.maximum(last - first, 1.0)) / cells
        limit = ratio or max(-(-size // cells), 1)
        count = jnp.full_like(cell, ratio) if ratio else jnp.clip(jnp.ceil(cell), 1, limit)
        offsets = (jnp.arange(limit) + 0.5) * (cell / count)[:, None]
        places = first[:, None, None] + jnp.arange(cells)[:, None] * cell[:, None, None] + offsets[:, None]
        used = jnp.broadcast_to(jnp.arange(limit) < count[:, None, None], places.shape)
        values = (jnp.clip(places, 0, size - 1), used, (places >= -1) & (places <= size))
        # [regions, cells of rows, cells of columns, samples of rows, samples of columns]
        axes.append([*(jnp.expand_dims(value, (2, 4) if number == 0 else (1, 3)) for value in values), count])
    (rows, used_rows, rows_inside, n_rows), (columns, used_columns, columns_inside, n_columns) = axes
    parts = read_corners(jnp.asarray(x)[jnp.asarray(batches)], *jnp.broadcast_arrays(rows, columns))
    parts = [jnp.where((rows_inside & columns_inside)[:, None], part, 0) for part in parts]
    used = (used_rows & used_columns)[:, None]
    if keys.get("mode", "avg") == "max":
        return jnp.where(used, functools.reduce(jnp.maximum, parts), -np.inf).max((4, 5)).astype(x.dtype)
    total = jnp.where(used, sum(parts), 0).sum((4, 5))
    return (total / jnp.maximum(n_rows * n_columns, 1)[:, None, None, None]).astype(x.dtype)
