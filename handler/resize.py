"""Resizing of an image as TensorFlow's ``tf.image.resize`` does it (half-pixel centres).

Pillow's own filters match TensorFlow's with antialiasing, bilinear within one level of 255, and are much faster than
anything here. The other methods have no equal in Pillow. They are a weighted sum of a few rows and columns for each one
of the target (``compute_taps``): gathered as bytes, without the unneeded ones, and added up as Pillow's float images,
without NumPy.

TensorFlow's answer is float32 and may overshoot; models here take uint8, so it is clipped and rounded once.
"""

from __future__ import annotations

import math
from array import array

from .crop import round_float32
from .typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PIL import Image

Box = tuple[float, float, float, float]  # left, top, right, bottom
Taps = tuple[list[int], list[list[float]]]
"""The taps along one axis: the first source pixel of each target pixel, and the weights of it and those after it."""


def resize_image(
    image: Image.Image,
    size: tuple[int, int],
    method: str,
    antialias: bool,
    box: Box | None = None,
    part: tuple[int, int, int, int] | None = None,
    grid: str = "half_pixel",
) -> Image.Image:
    """Resize ``image`` ("L" or "RGB"), or the ``box`` of it, to ``size`` (width, height) in the same mode.

    ``method``: nearest, bilinear, bicubic, area or lanczos (of radius 3). ``antialias`` has no effect on nearest and
    area. Only the filters with antialiasing take a box of fractional pixels. ``part``: the only part of the result to
    compute and return. ``grid``: see ``compute_taps``.
    """
    from PIL import Image

    left, top, right, bottom = part = part or (0, 0, *size)
    if image.size == size and box in (None, (0, 0, *size)):
        return image if part == (0, 0, *size) else image.crop(part)
    if box is not None and box != (0, 0, *image.size):
        x, y = math.floor(box[0]), math.floor(box[1])
        # Pillow's filters look beyond a box and TensorFlow's do not, so the image is cut first.
        image = image.crop((x, y, math.ceil(box[2]), math.ceil(box[3])))
        box = box[0] - x, box[1] - y, box[2] - x, box[3] - y
    if method in ("nearest", "area") or not antialias:
        axes = zip(image.size, size, strict=True)
        columns, rows = (compute_taps(method, source, target, grid) for source, target in axes)
        columns = columns[0][left:right], columns[1][left:right]
        rows = rows[0][top:bottom], rows[1][top:bottom]
        image, rows = _keep_needed_rows(image, rows)
        image, columns = _keep_needed_rows(image, columns)
        if method == "nearest":
            return _sum_rows(_sum_rows(image, rows), columns)
        return _round_bands(image.mode, [_sum_rows(_sum_rows(band, rows), columns) for band in image.split()])
    if part != (0, 0, *size):
        begin_x, begin_y, end_x, end_y = box or (0, 0, *image.size)
        across, down = (end_x - begin_x) / size[0], (end_y - begin_y) / size[1]
        begin = begin_x + left * across, begin_y + top * down
        box = *begin, min(begin_x + right * across, end_x), min(begin_y + bottom * down, end_y)
        size = right - left, bottom - top
    if method == "bilinear":
        return image.resize(size, Image.Resampling.BILINEAR, box)
    # These filters overshoot. Pillow would clip bytes between its two passes, but does not clip floats.
    filters = {"bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}
    return _round_bands(image.mode, [band.convert("F").resize(size, filters[method], box) for band in image.split()])


def compute_taps(method: str, source: int, target: int, grid: str = "half_pixel") -> Taps:
    """Return the weights of ``tf.image.resize(antialias=False)``, or of area, from ``source`` to ``target`` pixels.

    ``grid``: the places of target pixels for nearest and bilinear: half_pixel, or TensorFlow 1's asymmetric and
    align_corners.
    As in TensorFlow's kernels (``tensorflow/core/kernels/image``), nearest and the positions of bicubic are in float32,
    bicubic uses a table of 1024 fractions, and weights outside the image are left out and the others scaled up.
    """
    aligned = grid == "align_corners" and target > 1
    scale = round_float32((source - 1) / (target - 1) if aligned else source / target)
    shift = 0.5 if grid == "half_pixel" else 0.0
    if method == "nearest":
        nearer = 0.5 if grid == "align_corners" else 0.0
        firsts = [min(int(round_float32((x + shift) * scale) + nearer), source - 1) for x in range(target)]
        return firsts, [[1.0]] * target
    if method == "area":
        return _compute_area_taps(source, target)
    radius = {"bilinear": 1, "bicubic": 2, "lanczos": 3}[method]
    if grid == "half_pixel":
        scale = source / target
    starts, weights = [], []
    for x in range(target):
        place = (x + shift) * scale - shift
        low = math.floor(place)
        part = place - low
        if method == "bicubic":
            part = round(part * 1024) / 1024
        first = low - radius + 1
        row = [
            _evaluate_kernel(method, first + i - low - part) if 0 <= first + i < source else 0.0
            for i in range(2 * radius)
        ]
        total = sum(row)
        starts.append(first)
        weights.append([weight / total for weight in row])
    return starts, weights


def _compute_area_taps(source: int, target: int) -> Taps:
    """Weight each source pixel by the part of it that the target pixel covers."""
    scale = source / target
    starts, weights = [], []
    for x in range(target):
        begin, end = x * scale, min((x + 1) * scale, source)
        first = math.floor(begin)
        row = [min(i + 1, end) - max(i, begin) for i in range(first, max(math.ceil(end), first + 1))]
        total = sum(row)
        starts.append(first)
        weights.append([weight / total for weight in row])
    longest = max(map(len, weights))
    return starts, [row + [0.0] * (longest - len(row)) for row in weights]


def _evaluate_kernel(method: str, x: float) -> float:
    x = abs(x)
    if method == "bilinear":
        return max(0.0, 1 - x)
    if method == "bicubic":  # Keys, a = -0.5
        if x <= 1:
            return (1.5 * x - 2.5) * x * x + 1
        return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0
    if x == 0:
        return 1.0
    return 3 * math.sin(math.pi * x) * math.sin(math.pi * x / 3) / (math.pi * x) ** 2 if x < 3 else 0.0


def _keep_needed_rows(image: Image.Image, taps: Taps) -> tuple[Image.Image, Taps]:
    """Return the image with only the rows that the taps use, transposed, and the taps for those rows."""
    firsts, weights = taps
    last, count = image.height - 1, len(weights[0])
    kept = sorted({min(max(first + i, 0), last) for first in firsts for i in range(count)})
    place = {row: index for index, row in enumerate(kept)}
    # Adjacent rows stay adjacent; a tap may begin above the image.
    moved = [place[max(first, 0)] + min(first, 0) for first in firsts]
    return _sum_rows(image, (kept, [[1.0]] * len(kept))), (moved, weights)


def _sum_rows(image: Image.Image, taps: Taps) -> Image.Image:
    """Return the weighted sum of the image's rows, transposed, so that two calls cover both axes.

    The result has mode "F", or the image's own mode for a single tap, whose weight is 1.
    """
    from PIL import Image, ImageMath

    firsts, weights = taps
    size = image.width, len(firsts)
    # Weights outside the image are 0, so any row will do there.
    row_numbers = [[min(max(first + i, 0), image.height - 1) for first in firsts] for i in range(len(weights[0]))]
    rows = _read_rows(image, {y for numbers in row_numbers for y in numbers})
    total: Image.Image | None = None
    for i, numbers in enumerate(row_numbers):
        gathered = Image.frombytes(image.mode, size, b"".join([rows[y] for y in numbers]))
        if len(row_numbers) == 1:
            return gathered.transpose(Image.Transpose.TRANSPOSE)
        column = Image.frombytes("F", (1, len(firsts)), array("f", [row[i] for row in weights]).tobytes())
        operands = {"rows": gathered.convert("F"), "weight": column.resize(size, Image.Resampling.NEAREST)}
        if total is None:
            total = ImageMath.lambda_eval(lambda of: of["rows"] * of["weight"], **operands)
        else:
            total = ImageMath.lambda_eval(lambda of: of["total"] + of["rows"] * of["weight"], total=total, **operands)
    assert total is not None
    return total.transpose(Image.Transpose.TRANSPOSE)


def _read_rows(image: Image.Image, wanted: set[int]) -> Mapping[int, bytes]:
    """Return the bytes of the rows ``wanted``."""
    if len(wanted) * 4 < image.height:  # for a few rows of a large image, the rest is not copied
        return {y: image.crop((0, y, image.width, y + 1)).tobytes() for y in wanted}
    data = image.tobytes()
    length = len(data) // image.height
    return {y: data[y * length : (y + 1) * length] for y in wanted}


def _round_bands(mode: str, bands: list[Image.Image]) -> Image.Image:
    """Round the bands to bytes; Pillow's own conversion of mode "F" clips and truncates."""
    from PIL import Image

    if bands[0].mode == "L":  # each pixel is one of the image's own
        return Image.merge(mode, bands)
    return Image.merge(mode, [band.point(lambda value: value * 1 + 0.5).convert("L") for band in bands])
