"""Operators that read images between their elements: resizing, sampling on a grid, regions of interest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.graph_values import Value, list_axes, read_array, read_ints
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def sample_bilinear(images: Value, rows: Value, columns: Value) -> Value:
    """Return [..., c, *places] of ``images`` [..., c, h, w] at fractional ``rows`` and ``columns`` [..., *places].

    Outside of the image there are zeros.
    """
    lead = images.ndim - 3
    height, width = images.shape[-2:]
    flat = images.reshape(*images.shape[:-2], height * width)
    top, left = jnp.floor(rows), jnp.floor(columns)
    result: Any = 0
    for down, right in itertools.product((0, 1), (0, 1)):
        y, x = top + down, left + right
        weight = (1 - jnp.abs(rows - y)) * (1 - jnp.abs(columns - x))
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        index = (jnp.clip(y, 0, height - 1) * width + jnp.clip(x, 0, width - 1)).astype(np.int64)
        places = index.shape[lead:]
        picked = jnp.take_along_axis(flat, index.reshape(*index.shape[:lead], 1, -1), -1)
        result = result + picked.reshape(*picked.shape[:-1], *places) * jnp.expand_dims(
            jnp.where(inside, weight, 0), lead
        )
    return result


def _cubic(distance: Any, a: float, module: Any = np) -> Any:
    """Return the weight of an element at a distance, by Keys' cubic convolution with the coefficient ``a``."""
    x = module.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return module.where(x <= 1, near, module.where(x < 2, far, 0))


_SOURCES: dict[str, Callable[[Any, int, float, float, float, float], Any]] = {
    "half_pixel": lambda i, n, m, scale, lo, hi: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, n, m, scale, lo, hi: n / 2 * (1 - math.floor(m) / m) + (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, n, m, scale, lo, hi: (i + 0.5) / scale - 0.5 if m > 1 else i * 0.0,
    "align_corners": lambda i, n, m, scale, lo, hi: i * (n - 1) / (math.floor(m) - 1) if math.floor(m) > 1 else i * 0.0,
    "asymmetric": lambda i, n, m, scale, lo, hi: i / scale,
    "tf_half_pixel_for_nn": lambda i, n, m, scale, lo, hi: (i + 0.5) / scale,
    "tf_crop_and_resize": lambda i, n, m, scale, lo, hi: (
        lo * (n - 1) + i * (hi - lo) * (n - 1) / (math.floor(m) - 1)
        if math.floor(m) > 1
        else i * 0.0 + 0.5 * (lo + hi) * (n - 1)
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
def resize_image(
    x: Value,
    *inputs: Value,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    keep_aspect_ratio_policy: str = "stretch",
    extrapolation_value: float = 0.0,
    opset: int = 13,
    **given: Any,
) -> Value:
    """Return ``x`` resized along ``axes``, by scales or to sizes."""
    if opset < 11:
        inputs, coordinate_transformation_mode, nearest_mode = (None, *inputs), "asymmetric", "floor"
    roi, scales, sizes = (*inputs, None, None, None)[:3]
    keys = {"mode": "nearest", "antialias": 0, "exclude_outside": 0, "cubic_coeff_a": -0.75, **given}
    where = list_axes(np.asarray(axes), np.ndim(x)) if axes is not None else tuple(range(np.ndim(x)))
    wanted, factors, exact = _find_sizes([np.shape(x)[axis] for axis in where], scales, sizes, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    regions = read_array(roi).reshape(2, -1).astype(float) if crops else np.array([[0.0], [1.0]]).repeat(len(where), 1)
    result = jnp.asarray(x)
    for number, axis in enumerate(where):
        size = np.shape(x)[axis]
        if wanted[number] == size and factors[number] == 1 and not crops:
            continue
        places = _SOURCES[coordinate_transformation_mode](
            np.arange(wanted[number], dtype=float), size, exact[number], factors[number], *regions[:, number]
        )
        if keys["mode"] == "nearest":
            chosen = np.clip(_ROUNDINGS[nearest_mode](places), 0, size - 1).astype(int)
            result = jnp.take(result, chosen, axis)
        else:
            matrix = _make_weights(places, size, factors[number], keys)
            kind = result.dtype if jnp.issubdtype(result.dtype, jnp.floating) else np.float64
            mixed = jnp.tensordot(result.astype(kind), matrix.astype(kind), ([axis], [1]))
            mixed = mixed if kind == result.dtype else jnp.trunc(mixed).astype(result.dtype)
            result = jnp.moveaxis(mixed, -1, axis)
        if crops:
            outside = ((places < 0) | (places > size - 1)).reshape([-1 if d == axis else 1 for d in range(np.ndim(x))])
            result = jnp.where(outside, np.asarray(extrapolation_value, x.dtype), result)
    return result


@OPS.define("Upsample")
def upsample_image(x: Value, scales_input: Value = None, *, mode: str = "nearest", scales: Any = None) -> Value:
    """Return ``x`` made larger by factors."""
    factors = scales_input if scales_input is not None else np.asarray(scales, np.float32)
    return resize_image(x, None, factors, coordinate_transformation_mode="asymmetric", nearest_mode="floor", mode=mode)


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
    sizes = x.shape[2:]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    taps: list[list[tuple[Any, Any, Any]]] = []
    for number, size in enumerate(sizes):
        g = grid[..., len(sizes) - 1 - number]
        places = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if padding_mode == "border" and mode != "cubic":
            places = jnp.clip(places, 0, size - 1)
        elif padding_mode == "reflection" and mode != "cubic":
            places = _reflect(places, low, high)
        taps.append(
            [_read_tap(tap, weight, size, padding_mode, (low, high)) for tap, weight in _list_taps(places, mode)]
        )
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
def align_regions(
    x: Value,
    rois: Value,
    batches: Value,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
    opset: int = 16,
) -> Value:
    """Return the mean, or the largest, of samples in each cell of each region [x1, y1, x2, y2] of interest."""
    half = coordinate_transformation_mode == "half_pixel" and opset >= 16
    images = jnp.asarray(x)[jnp.asarray(batches)]
    corners = jnp.asarray(rois) * spatial_scale - (0.5 if half else 0.0)
    axes = []
    for first, last, cells, size in (
        (corners[:, 1], corners[:, 3], output_height, np.shape(x)[2]),
        (corners[:, 0], corners[:, 2], output_width, np.shape(x)[3]),
    ):
        length = last - first if half else jnp.maximum(last - first, 1.0)
        cell = length / cells
        limit = sampling_ratio or max(-(-size // cells), 1)
        count = jnp.full_like(cell, sampling_ratio) if sampling_ratio else jnp.clip(jnp.ceil(cell), 1, limit)
        numbers = jnp.arange(limit)
        offsets = (numbers + 0.5) * (cell / count)[:, None]
        places = first[:, None, None] + jnp.arange(cells)[:, None] * cell[:, None, None] + offsets[:, None]
        used = jnp.broadcast_to(numbers < count[:, None, None], places.shape)
        inside = (places >= -1) & (places <= size)
        axes.append((jnp.clip(places, 0, size - 1), used, inside, size, count))
    (rows, used_rows, rows_inside, height, n_rows), (columns, used_columns, columns_inside, width, n_columns) = axes
    sample = [(0, 0), (0, 1), (1, 0), (1, 1)]
    parts = []
    for down, right in sample:
        top, left = jnp.floor(rows), jnp.floor(columns)
        by_row, by_column = (rows - top if down else 1 - rows + top), (columns - left if right else 1 - columns + left)
        y, z = (jnp.clip(top + down, 0, height - 1), jnp.clip(left + right, 0, width - 1))
        number = jnp.arange(images.shape[0])[:, None, None, None, None]
        picked = jnp.moveaxis(images, 1, -1)[
            number, y.astype(np.int64)[:, :, None, :, None], z.astype(np.int64)[:, None, :, None, :]
        ]
        weight = by_row[:, :, None, :, None] * by_column[:, None, :, None, :]
        inside = rows_inside[:, :, None, :, None] & columns_inside[:, None, :, None, :]
        parts.append(picked * jnp.where(inside, weight, 0)[..., None].astype(x.dtype))
    used = (used_rows[:, :, None, :, None] & used_columns[:, None, :, None, :])[..., None]
    if mode == "max":
        values = jnp.where(used, jnp.max(jnp.stack(parts), 0), -np.inf).max((3, 4))
    else:
        total = jnp.where(used, sum(parts), 0).sum((3, 4))
        values = total / jnp.maximum(n_rows * n_columns, 1)[:, None, None, None]
    return jnp.moveaxis(values, -1, 1).astype(x.dtype)
