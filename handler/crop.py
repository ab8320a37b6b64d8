"""The geometry of ``fit``: the part of an image that a model sees, its place in the target, and the way back."""

from __future__ import annotations

import math
import struct

from .named_tuples import NamedTuple
from .typed import TYPE_CHECKING

if TYPE_CHECKING:
    from .description import Description, ImageInput


class Fit(NamedTuple):
    """The placement of an image: its ``box`` (left, top, right, bottom) is resized to ``size`` and put at ``offset``.

    All are in pixels; sizes and offsets are (horizontal, vertical). A negative offset cuts the resized image off.
    """

    box: tuple[int, int, int, int]
    size: tuple[int, int]
    offset: tuple[int, int] = (0, 0)

    def map_to_source(self, x: float, y: float) -> tuple[float, float]:
        """Map the point ``x``, ``y`` of the target to the image, in pixels from the upper left."""
        left, top, right, bottom = self.box
        across, down = (right - left) / self.size[0], (bottom - top) / self.size[1]
        return left + (x - self.offset[0]) * across, top + (y - self.offset[1]) * down

    def find_visible_part(self, target: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return the part of the resized image in a target of that size: left, top, right, bottom, in its pixels."""
        (x, y), (width, height) = self.offset, self.size
        return max(0, -x), max(0, -y), min(width, target[0] - x), min(height, target[1] - y)


class Frame(NamedTuple):
    """The ``fit`` of an image of ``size`` to the model's, of ``shown``. Sizes are (width, height) in pixels."""

    size: tuple[int, int]
    shown: tuple[int, int]
    fit: Fit


def make_frame(description: Description, size: tuple[int, int] | None) -> Frame:
    """Return the frame of an image of ``size`` as it was sent; for a tensor that of the model's own image."""
    image = description.image
    assert image is not None  # the description was checked
    feed = next(port for port in description.feeds if port.name == image.feed)
    shown = feed.shape[2], feed.shape[1]
    return Frame(size, shown, place_image(size, image)) if size else Frame(shown, shown, Fit((0, 0, *shown), shown))


def round_float32(value: float) -> float:
    """Round ``value`` to the nearest float32."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def place_image(size: tuple[int, int], target: ImageInput) -> Fit:
    """Place an image of ``size`` in ``target``, to the pixel as Keras and TensorFlow do.

    cover: ``keras.utils.image_dataset_from_directory(crop_to_aspect_ratio=True)``, which is ``smart_resize``.
    contain: ``tf.image.resize_with_pad``. ``target.crop``: ``tf.image.central_crop``, applied first. square and
    short: as in TensorFlow's own networks, whose ``crop`` is a part of the short side. short_exact and stretch_exact:
    as the image processors of Hugging Face's transformers.
    """
    if target.fit == "square":
        return _crop_square(size, target)
    if target.fit in ("short", "short_rounded"):
        return _resize_short_side(size, target)
    if target.fit in ("short_exact", "stretch_exact"):
        return _resize_exactly(size, target)
    left, top = (min(int((side - side * target.crop) / 2), (side - 1) // 2) for side in size)
    inner = _place_whole((size[0] - 2 * left, size[1] - 2 * top), target)
    if not left and not top:
        return inner
    x, y, right, bottom = inner.box
    return inner._replace(box=(left + x, top + y, left + right, top + bottom))


def _place_whole(size: tuple[int, int], target: ImageInput) -> Fit:
    width, height = size
    full, wanted = (0, 0, width, height), (target.width, target.height)
    if target.fit == "cover":
        kept_width = max(1, min(width, height * target.width // target.height))
        kept_height = max(1, min(height, width * target.height // target.width))
        left, top = (width - kept_width) // 2, (height - kept_height) // 2
        return Fit((left, top, left + kept_width, top + kept_height), wanted)
    if target.fit == "contain":
        # TensorFlow computes in float32, which may make an image one pixel narrower.
        ratio = max(round_float32(width / target.width), round_float32(height / target.height))
        scaled = round_float32(width / ratio), round_float32(height / ratio)
        offset = round_float32(target.width - scaled[0]) / 2, round_float32(target.height - scaled[1]) / 2
        return Fit(
            full,
            (max(1, math.floor(scaled[0])), max(1, math.floor(scaled[1]))),
            (max(0, math.floor(offset[0])), max(0, math.floor(offset[1]))),
        )
    return Fit(full, wanted)


def _crop_square(size: tuple[int, int], target: ImageInput) -> Fit:
    """Crop as ``center_crop_image`` of TensorFlow's model garden does."""
    short = min(size)
    side = max(1, min(short, int(round_float32(round_float32(target.crop) * short))))
    left, top = ((edge - side + 1) // 2 for edge in size)
    return Fit((left, top, left + side, top + side), (target.width, target.height))


def _resize_short_side(size: tuple[int, int], target: ImageInput) -> Fit:
    """Resize as ``aspect_preserving_resize`` and ``central_crop`` of TensorFlow's networks do.

    They truncate lengths to whole numbers; short_rounded rounds to the nearest ones.
    """
    to_int = round if target.fit == "short_rounded" else int
    wanted = target.width, target.height
    scale = round_float32(round(min(wanted) / target.crop) / min(size))
    return _cut_middle(size, tuple(to_int(round_float32(edge * scale)) for edge in size), wanted)


def _resize_exactly(size: tuple[int, int], target: ImageInput) -> Fit:
    """Resize the short side, or both, to the size divided by ``crop``."""
    wanted = target.width, target.height
    if target.fit == "stretch_exact":
        return _cut_middle(size, tuple(round(edge / target.crop) for edge in wanted), wanted)
    short = round(min(wanted) / target.crop)
    return _cut_middle(size, tuple(short * edge // min(size) for edge in size), wanted)


def _cut_middle(size: tuple[int, int], resized: tuple[int, ...], wanted: tuple[int, int]) -> Fit:
    """Resize an image of ``size`` to ``resized``, or to ``wanted`` where that is more, which is cut out of it."""
    width, height = map(max, resized, wanted)
    return Fit((0, 0, *size), (width, height), (-((width - wanted[0]) // 2), -((height - wanted[1]) // 2)))
