"""Finds the ``[image]`` settings that match a graph's processing of encoded images, by trial.

Images of one colour give scale and mean exactly, since cropping and resizing do not change them. Then the function's
own code decodes photographs in every way that the graph's ops permit, and the settings nearest to TensorFlow's pixels
are chosen. The difference is in grey levels, of 0 to 255.
"""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.commands import docs_command
from builder.base.errors import ImportModelError
from builder.base.tf import load_graph
from builder.config import Fit, Grid, ImageSpec, Resize
from builder.importers.images.cut_decoding import EncodedImages, encode_jpeg
from builder.importers.loaded import RawGraph
from builder.importers.rewrite import all_nodes, copy_message
from builder.importers.samples.golden_inputs import PHOTOGRAPHS
from builder.importers.samples.labelled_samples import decode_image
from builder.importers.strings.frontier import IMAGE_OPS, run_graph

LARGEST, MEAN = 2.0, 0.75
"""The largest allowed difference from TensorFlow's pixels in grey levels, and the largest mean over a photograph.
Rounding causes up to 0.5, and a graph that truncates up to 1."""

_FITS: tuple[Fit, ...] = ("stretch", "contain", "cover", "square")
_OLD = ("ResizeBilinear", "ResizeNearestNeighbor")
_SHORT: tuple[Fit, ...] = ("short", "short_rounded")
_USUAL: tuple[Resize, bool] = ("bilinear", False)
_METHODS: dict[str, tuple[tuple[Resize, bool], ...]] = {
    "ResizeBilinear": (("bilinear", False),),
    "ResizeBicubic": (("bicubic", False),),
    "ResizeArea": (("area", False),),
    "ResizeNearestNeighbor": (("nearest", False),),
    "ScaleAndTranslate": (("bilinear", True), ("bicubic", True), ("lanczos", True), ("lanczos", False)),
}
"""The settings ``resize`` and ``antialias`` that a graph's op may correspond to."""

_UINT8, _NUMBERS = 4, (1, 2, 3, 9)
"""TensorFlow's enum values of uint8, and of float32, float64, int32 and int64."""
_MOST_FRACTIONS = 6
"""The largest number of fractions to try, and of lengths."""

_NEAR = 1e-5
"""The relative difference up to which a scale, float32 in the graph, is taken for a round number."""
_PLAIN = (1.0, 1 / 255, 1 / 127.5, 1 / 128, 1 / 256)


@dataclass(frozen=True)
class PixelDifference:
    """The largest difference from TensorFlow's pixels in grey levels, and the mean of the worst photograph."""

    most: float
    mean: float

    @property
    def fits(self) -> bool:
        """Whether the difference is allowed."""
        return self.most <= LARGEST and self.mean <= MEAN


@dataclass(frozen=True)
class FittedImage:
    """The settings (``image``) that replace the graph's ``ops``.

    ``off``: the difference with files decoded accurately. ``as_saved``: the same with the graph's own decoding.
    """

    image: ImageSpec
    ops: tuple[str, ...]
    off: PixelDifference
    as_saved: PixelDifference


class GraphDecoder:
    """The graph up to the frontier, as TensorFlow runs it."""

    def __init__(self, raw: RawGraph, images: EncodedImages) -> None:
        self.graph, self.accurate = load_graph(raw.graph_def), load_graph(_use_accurate_decoding(raw.graph_def))
        self.numbers, self.old_grids = _collect_numbers(raw.graph_def), _find_old_grids(raw.graph_def)
        self.source = raw.feeds[images.frontier.feed]
        self.images = images
        self.base64 = "DecodeBase64" in images.frontier.ops

    def make_feeds(self, data: bytes) -> dict[str, Any]:
        """Return the JPEG ``data`` for every string, by tensor."""
        text = base64.urlsafe_b64encode(data).rstrip(b"=") if self.base64 else data
        return {self.source: np.full(self.images.strings, text, object)}

    def decode_pixels(self, data: bytes, *, as_saved: bool = False) -> Array:
        """Return the pixels of the JPEG ``data``: float64 [height, width, channels]. Raises ImportModelError.

        Decoding is libjpeg's accurate one, equal to Pillow's to the bit, unless ``as_saved``.
        """
        (decoded,) = run_graph(
            self.graph if as_saved else self.accurate, [self.images.frontier.tensor], self.make_feeds(data)
        )
        count = int(np.prod(self.images.strings, dtype=np.int64))
        pixels: Array = np.asarray(decoded, np.float64).reshape(count, *self.images.size)[0]
        return pixels


def _use_accurate_decoding(graph_def: Any) -> Any:
    """Return ``graph_def`` with JPEG files decoded accurately by all ops."""
    result = copy_message(graph_def)
    for node in all_nodes(result):
        if node.op in ("DecodeImage", "DecodePng", "DecodeBmp", "DecodeGif") and node.attr["dtype"].type in (0, _UINT8):
            channels = node.attr["channels"].i
            node.op = "DecodeJpeg"
            node.ClearField("attr")
            node.attr["channels"].i = channels
        if node.op in ("DecodeJpeg", "DecodeAndCropJpeg"):
            node.attr["dct_method"].s = b"INTEGER_ACCURATE"
            node.attr["fancy_upscaling"].b = True
    return result


def fit_image_settings(host: GraphDecoder, configured: ImageSpec | None) -> FittedImage:
    """Return the settings that match ``host``; ``configured``: settings from model.toml, which are kept.

    Raises ImportModelError, with the difference in grey levels, if none are near enough.
    """
    frontier, (height, width, channels) = host.images.frontier, host.images.size
    scale, offset, reverse = _measure_scale(host)
    mean = tuple(_round_mean(float(-b / a)) for a, b in zip(scale, offset, strict=True))
    base = ImageSpec(
        feed=frontier.feed,
        width=width,
        height=height,
        mode="rgb" if channels == 3 else "grey",
        channel_order="bgr" if reverse else "rgb",
        scale=_merge_equal_values(tuple(_round_scale(float(a)) for a in scale)),
        mean=_merge_equal_values(mean),
        padding=_merge_equal_values(
            tuple(int(min(max(round(m), 0), 255)) for m in (reversed(mean) if reverse else mean))
        ),
        decode="exact",
    )
    files = load_photographs()

    def grey_levels(data: bytes, *, as_saved: bool = False) -> Array:
        fitted = (host.decode_pixels(data, as_saved=as_saved) - offset) / scale
        return np.clip(fitted[..., ::-1] if reverse else fitted, 0, 255)

    targets = [grey_levels(data) for data in files]
    if configured and (configured.height, configured.width, configured.channels) != (height, width, channels):
        raise ImportModelError(
            f"[image] says {configured.width} x {configured.height} pixels in {configured.mode}; the graph makes "
            f"{width} x {height} of each image, in {channels} channel{'s' if channels > 1 else ''}. Delete [image]: "
            "the graph says it."
        )
    tried = [configured] if configured else list(_iterate_candidates(base, host))
    edge = int("DecodeAndCropJpeg" in frontier.ops)
    first = {image: _measure_difference(image, files[:2], targets[:2], edge).mean for image in tried}
    image = min(tried, key=lambda one: first[one])
    as_saved = _measure_difference(image, files, [grey_levels(data, as_saved=True) for data in files], edge)
    fitted = FittedImage(image, frontier.ops, _measure_difference(image, files, targets, edge), as_saved)
    if not fitted.off.fits:
        raise ImportModelError(_describe_misfit(fitted, host.old_grids))
    return fitted


def load_photographs() -> list[bytes]:
    """Return JPEG files of several sizes and shapes: whole photographs and parts of them."""
    from PIL import Image

    paths = sorted(PHOTOGRAPHS.glob("*.jpg"))
    files = [path.read_bytes() for path in paths]
    for path, size in zip(itertools.cycle(paths), ((400, 300), (210, 350), (90, 110)), strict=False):
        with Image.open(path) as opened:
            part = opened.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        file = io.BytesIO()
        part.save(file, "JPEG", quality=92)
        files.append(file.getvalue())
    return files[len(paths) :] + files[: len(paths)]


def describe_fit(fitted: FittedImage) -> str:
    """Return a description for a person of the ops and the settings that replace them."""
    image, ops = fitted.image, [op for op in fitted.ops if op in _NAMED_OPS]
    scale, mean = (", ".join(f"{v:.6g}" for v in values) for values in (image.scale, image.mean))
    grid = f", grid {image.grid}" if image.grid != "half_pixel" else ""
    crop = f", crop {image.crop:g}" if image.crop != 1 else ""
    return (
        f"images in {image.feed!r}: {', '.join(ops)} → [image] {image.width} x {image.height}, {image.mode}"
        f"{', bgr' if image.channel_order == 'bgr' else ''}, {image.resize}{' with antialias' * image.antialias}, "
        f'fit = "{image.fit}"{crop}{grid}, scale {scale}, mean {mean}; off TensorFlow\'s pixels by '
        f"{fitted.as_saved.mean:.2f} grey levels in the mean, {fitted.as_saved.most:.1f} at most "
        f"({fitted.off.mean:.2f} and {fitted.off.most:.1f} where it decodes accurately)"
    )


_NAMED_OPS = (IMAGE_OPS - {"ExtractJpegShape"}) | {"CropAndResize", *_METHODS}
"""Ops that a description names."""


def _measure_scale(host: GraphDecoder) -> tuple[Array, Array, bool]:
    """Return scale and offset per channel, and whether red comes last. Raises ImportModelError."""
    height, width, channels = host.images.size

    def of(*colour: int) -> Array:
        image = np.full((height, width, 3), colour, np.uint8)
        colours: Array = host.decode_pixels(encode_jpeg(image)).mean((0, 1))
        return colours

    black, grey, white = (of(v, v, v) for v in (0, 128, 255))
    scale, offset = (white - black) / 255, black
    uneven = np.abs(black + scale * 128 - grey).max() > 0.6 * np.abs(scale).max()
    if not np.all(np.abs(scale) > 1e-9) or uneven or not np.all(np.isfinite([scale, offset])):
        frontier = host.images.frontier
        raise ImportModelError(
            f"The input {frontier.feed!r} is encoded images, and {frontier.tensor} is the first tensor of one size "
            f"behind {' -> '.join(frontier.ops)}. Its values are in no proportion to the pixels' (black is "
            f"{black[0]:.4g}, grey {grey[0]:.4g}, white {white[0]:.4g}): normalise images after they have one size, "
            "outside of tf.map_fn."
        )
    if channels == 1:
        return scale, offset, False
    red = (of(255, 0, 0) - offset) / scale
    return scale, offset, bool(red[2] > red[0])


def _iterate_candidates(base: ImageSpec, host: GraphDecoder) -> Iterator[ImageSpec]:
    ops = host.images.frontier.ops
    methods = [method for op, methods in _METHODS.items() if op in ops for method in methods]
    # One number in the graph may be the share of an image that is cropped, and another the length of a short side.
    short = min(base.width, base.height)
    fractions = [number for number in host.numbers if 0.05 < number < 1][:_MOST_FRACTIONS]
    sides = [number for number in host.numbers if short <= number <= 2 * short and number.is_integer()]
    ways = [*itertools.product((1.0, *fractions), _FITS)]
    ways += [(short / side, fit) for side in sides[:_MOST_FRACTIONS] for fit in _SHORT]
    kinds: list[tuple[Resize, bool, Grid]] = [(*kind, "half_pixel") for kind in methods or [_USUAL]]
    kinds += [
        ("bilinear" if op == "ResizeBilinear" else "nearest", False, grid) for op, grid in host.old_grids if op in _OLD
    ]
    for (crop, fit), (method, antialias, grid) in itertools.product(ways, kinds):
        yield replace(base, crop=crop, resize=method, antialias=antialias, grid=grid, fit=fit)


def _collect_numbers(graph_def: Any) -> tuple[float, ...]:
    """Return the numbers in a graph, without those in lists."""
    from tensorflow.python.framework import tensor_util

    numbers: dict[float, None] = {}
    for node in all_nodes(graph_def):
        value = node.attr["value"].tensor if node.op == "Const" else None
        if value is not None and value.dtype in _NUMBERS and not value.tensor_shape.dim:
            numbers[round(float(tensor_util.MakeNdarray(value)), 6)] = None
    return tuple(numbers)


def _measure_difference(
    image: ImageSpec, files: Sequence[bytes], wanted: Sequence[Array], edge: int
) -> PixelDifference:
    """Return the difference without ``edge`` pixels at each edge.

    If libjpeg crops, it interpolates colours from fewer pixels: up to 13 grey levels in a column before resizing.
    """
    differences = []
    for data, pixels in zip(files, wanted, strict=True):
        height, width = pixels.shape[:2]
        off = np.abs(decode_image(data, image) - pixels)
        differences.append(off[edge : height - edge, edge : width - edge])
    return PixelDifference(max(float(d.max()) for d in differences), max(float(d.mean()) for d in differences))


def _describe_misfit(fitted: FittedImage, grids: Sequence[tuple[str, Grid]]) -> str:
    """Return the nearest settings, and advice, other if ``grids`` has ops that place pixels as TensorFlow 1 did."""
    image = fitted.image
    remedy = (
        "Of cuts, [image] knows tf.image.central_crop, the square in the middle, and a short side that is resized "
        f"first. Use one of these ({docs_command('strings')}), or export a signature that takes pixels."
    )
    if unknown := [f"{op} with a grid {grid}" for op, grid in grids if op not in _OLD]:
        remedy = (
            f"{' and '.join(unknown)}: of these, [image] knows nearest and bilinear alone. Resize with "
            "tf.image.resize, or with half_pixel_centers=True, or export a signature that takes pixels."
        )
    return (
        f"The input {image.feed!r} is encoded images, and the graph does to them what [image] cannot: at its "
        f'nearest ({image.resize}{" with antialias" * image.antialias}, fit = "{image.fit}") the function\'s pixels '
        f"are off TensorFlow's by {fitted.off.mean:.1f} grey levels in the mean and {fitted.off.most:.0f} at most; "
        f"{MEAN:g} and {LARGEST:g} are allowed.\n"
        f"  {image.feed} -> {' -> '.join(fitted.ops)}\n"
        f"{remedy}"
    )


def _find_old_grids(graph_def: Any) -> tuple[tuple[str, Grid], ...]:
    """Return the ops of a graph that place pixels as TensorFlow 1 did, with the kind of their grids."""
    grids: dict[tuple[str, Grid], None] = {}
    for node in all_nodes(graph_def):
        if node.op in _METHODS and "half_pixel_centers" in node.attr and not node.attr["half_pixel_centers"].b:
            grids[node.op, "align_corners" if node.attr["align_corners"].b else "asymmetric"] = None
    return tuple(grids)


def _round_scale(value: float) -> float:
    """Return the nearest number that a person would write, if it is near enough."""
    return next((plain for plain in _PLAIN if abs(value / plain - 1) < _NEAR), value)


def _round_mean(value: float) -> float:
    rounded = round(value, 3)
    return (rounded if abs(value - rounded) < 1e-4 else value) + 0.0


def _merge_equal_values(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values if len(set(values)) > 1 else values[:1]
