"""Conversion of an image file to the raw pixels that a model takes.

bytes → header and budget → decode → colour mode → upright (EXIF) → crop and resize (``fit``) → uint8 bytes. A format is
recognised by its first bytes, and only the plugin of that format is imported and tried: Pillow's own ``open`` would
import five of them and try each.
"""

from __future__ import annotations

import importlib
import io
import math
import sys
import warnings
from types import ModuleType

from .budget import MAX_SIDE, RequestLimits, image_cost
from .crop import Fit, place_image
from .deferred_import import defer_imports
from .errors import (
    DamagedImageError,
    HandlerError,
    NotAnImageError,
    OverBudgetError,
    TooLargeError,
    TooManyPixelsError,
    TruncatedImageError,
    UnsupportedImageError,
)
from .image_header import read_image_header, read_orientation
from .named_tuples import NamedTuple
from .resize import resize_image
from .typed import STAND_INS, TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from .description import ImageInput


_MAGIC = ((b"\xff\xd8\xff", "Jpeg"), (b"\x89PNG\r\n\x1a\n", "Png"), (b"GIF8", "Gif"), (b"BM", "Bmp"))
_NAMES = {"WEBP": "WebP"}  # as people write them
_TOO_SHORT = ("truncated", "eof", "not enough")  # in the messages of Pillow's decoders
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_LYING, _FROM_RIGHT, _FROM_BOTTOM = (5, 6, 7, 8), (2, 3, 7, 8), (3, 4, 6, 7)
"""Orientations in which width and height change places, and in which columns or rows run the other way."""

_MARGIN, _MARGIN_ACROSS = 3, 6
"""The least size, in multiples of the target's, of a JPEG that is decoded smaller; the second for a visible part that
ends inside a pixel. At 2, pixels would be off by up to 15 of 255; at 3 and at 4 by up to 5, and by 0.25 on average."""

_UNUSED: dict[str, dict[str, object]] = {
    "PIL.ExifTags": {},
    "PIL.ImageChops": {},
    "PIL.ImageSequence": {},
    "PIL.TiffTags": {},
    "fractions": {},
    "subprocess": {},
}
"""Modules that Pillow imports and images here do not need: ``read_orientation`` reads the part of EXIF that matters."""


def load_decoders(*more: str) -> None:
    """Import the decoders for most images and the plugins ``more`` at the start; others are imported when needed."""
    for name in ("Jpeg", *more):
        _import_plugin(name)


def _import_plugin(name: str) -> ModuleType:
    """Return Pillow's module for the format ``name``."""
    full = f"PIL.{name}ImagePlugin"
    if full in sys.modules:
        return importlib.import_module(full)
    import PIL  # noqa: F401 - without it, the imports of its submodules could not be deferred

    # Python's own NamedTuple would compile code for two classes, which takes 1.5 ms.
    unused = _UNUSED | {"typing": STAND_INS | {"NamedTuple": NamedTuple}}
    if name == "Png":  # its plugin uses palettes only for an image that has one; GIF's uses them at once
        unused["PIL.ImagePalette"] = {}
    with defer_imports(unused):
        return importlib.import_module(full)


class ImagePixels(NamedTuple):
    """An image as the model takes it: row-major, uint8. ``size``: the size of the image in the file, upright."""

    data: bytes
    size: tuple[int, int]


def read_pixels(data: bytes, where: str, target: ImageInput, limits: RequestLimits, seconds: float = math.inf) -> bytes:
    """Return the image file ``data`` as ``target.size`` bytes, row-major, uint8; see ``read_image``."""
    return read_image(data, where, target, limits, seconds).data


def read_image(
    data: bytes, where: str, target: ImageInput, limits: RequestLimits, seconds: float = math.inf
) -> ImagePixels:
    """Decode the image file ``data`` for ``target``. Raises HandlerError.

    ``where`` names the file in messages. ``seconds``: the time left for it.
    """
    try:
        if len(data) > limits.encoded:
            raise TooLargeError(f"has {len(data):,} bytes; at most {limits.encoded:,} are allowed")
        decoded = _decode_image(data, target, limits, seconds)
        return ImagePixels(decoded.resized_to(target).tobytes(), decoded.size)
    except HandlerError as error:
        raise type(error)(f"{where} {error.message}") from error.__cause__


class _DecodedImage(NamedTuple):
    """An image, upright and in the target's colour mode, at 1/``scale`` of ``size``, its upright size in the file.

    Where that size is not divisible by ``scale``, the image begins at ``origin``, inside the first pixel.
    """

    image: Image
    fit: Fit
    size: tuple[int, int]
    scale: int = 1
    origin: tuple[float, float] = (0, 0)

    def resized_to(self, target: ImageInput) -> Image:
        from PIL import Image

        fit, (x, y), scale = self.fit, self.origin, self.scale
        left, top, right, bottom = fit.box
        box = (left / scale + x, top / scale + y, right / scale + x, bottom / scale + y)
        size = target.width, target.height
        part = fit.find_visible_part(size)
        image = resize_image(self.image, fit.size, target.resize, target.antialias, box, part, target.grid)
        if image.size == size:
            return image
        canvas = Image.new(image.mode, size, _expand_colour(target.padding, target.mode))
        canvas.paste(image, (fit.offset[0] + part[0], fit.offset[1] + part[1]))
        return canvas


def detect_format(data: bytes) -> str | None:
    """Name Pillow's module for the format of ``data``, judged by its first bytes; None for an unknown format."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    return next((name for magic, name in _MAGIC if data.startswith(magic)), None)


def _decode_image(data: bytes, target: ImageInput, limits: RequestLimits, seconds: float) -> _DecodedImage:
    plugin = detect_format(data)
    if plugin is None or plugin.upper() not in limits.formats:
        raise NotAnImageError(f"is not an image in an accepted format; send {_list_formats(limits.formats)}")
    if plugin == "WebP":
        _check_webp(data, limits)
    module = _import_plugin(plugin)
    try:
        with warnings.catch_warnings():  # Pillow warns of odd metadata, with the file's own words
            warnings.simplefilter("ignore")
            header = read_image_header(plugin, data)
            image: ImageFile = getattr(module, f"{plugin}ImageFile")(io.BytesIO(header.data))
            _check_pixels(image.size, limits)
            _check_decoder(image, plugin)
            exif, xmp = (header.exif or image.info.get("exif", b"")), (header.xmp or image.info.get("xmp", b""))
            turn = read_orientation(exif, xmp)
            width, height = image.size
            fit = place_image((height, width) if turn in _LYING else (width, height), target)
            if max(fit.size) > MAX_SIDE:
                raise OverBudgetError(f"would be {fit.size[0]:,} × {fit.size[1]:,} pixels once it is resized")
            limits.require_cost(image_cost(image.size, (target.width, target.height), limits), seconds)
            scale = _choose_scale(fit, image.size) if plugin == "Jpeg" and _can_shrink_first(target) else 1
            return _load_image(image, plugin, turn, fit, scale, target)
    except (HandlerError, MemoryError):
        raise
    except Exception as error:  # decoders raise what they like: OSError, SyntaxError, ValueError, struct.error, ...
        if isinstance(error, EOFError) or any(word in str(error).lower() for word in _TOO_SHORT):
            raise TruncatedImageError(f"is a {plugin.upper()} file that ends too early") from error
        raise DamagedImageError(f"is a {plugin.upper()} file that cannot be decoded") from error


def _load_image(image: ImageFile, plugin: str, turn: int, fit: Fit, scale: int, target: ImageInput) -> _DecodedImage:
    """Load a JPEG no larger than the target needs, and in grey without its colours, as ``tf.io.decode_jpeg`` does."""
    from PIL import Image

    width, height = image.size
    size = (height, width) if turn in _LYING else (width, height)
    draft = image.draft("L" if target.mode == "grey" else "RGB", (width // scale, height // scale))
    image.load()
    upright = _convert_mode(image, target)
    if turn in _UPRIGHT:
        upright = upright.transpose(Image.Transpose[_UPRIGHT[turn]])
    if plugin != "Jpeg" or draft is None or image.size == (width, height):
        return _DecodedImage(upright, fit, size)
    # libjpeg rounds sizes up, so the last pixel is partly outside the image: after turning, perhaps the first.
    x = image.width - width / scale if turn in _FROM_RIGHT else 0
    y = image.height - height / scale if turn in _FROM_BOTTOM else 0
    return _DecodedImage(upright, fit, size, scale, (y, x) if turn in _LYING else (x, y))


def _can_shrink_first(target: ImageInput) -> bool:
    """Return whether a smaller decoded image will do, as each pixel of the target averages many of its pixels."""
    return target.antialias and target.resize in ("bilinear", "bicubic", "lanczos") and target.decode == "fast"


def _choose_scale(fit: Fit, size: tuple[int, int]) -> int:
    """Return 2, 4 or 8 where libjpeg may decode to that fraction of the size, else 1."""
    shrinkage = min((fit.box[2] - fit.box[0]) / fit.size[0], (fit.box[3] - fit.box[1]) / fit.size[1])
    for scale in (8, 4, 2):
        divisible = not any(edge % scale for edge in (*fit.box, *size))
        if shrinkage >= scale * (_MARGIN if divisible else _MARGIN_ACROSS):
            return scale
    return 1


def _list_formats(formats: tuple[str, ...]) -> str:
    *most, last = [_NAMES.get(name, name) for name in formats]
    return f"{', '.join(most)} or {last}" if most else last


def _check_pixels(size: tuple[int, int], limits: RequestLimits) -> None:
    width, height = size
    if max(size) > MAX_SIDE:
        raise TooManyPixelsError(f"has {width} × {height} pixels; at most {MAX_SIDE:,} are allowed on a side")
    if width * height > limits.pixels:
        raise TooManyPixelsError(f"has {width} × {height} pixels; at most {limits.pixels:,} in total are allowed")


def _check_decoder(image: ImageFile, plugin: str) -> None:
    """Refuse what Pillow decodes in Python, a hundred times slower than in C, as a BMP with run-length encoding."""
    from PIL import Image

    if any(tile.codec_name in Image.DECODERS for tile in image.tile):
        raise UnsupportedImageError(f"is a {plugin.upper()} file of an unsupported kind; save it uncompressed")


def _check_webp(data: bytes, limits: RequestLimits) -> None:
    """Check length and size in the header, as libwebp allocates the whole canvas as soon as it opens a file."""
    if int.from_bytes(data[4:8], "little") + 8 > len(data) or len(data) < 30:
        raise TruncatedImageError("is a WEBP file that ends too early")
    kind = data[12:16]
    if kind == b"VP8X":
        size = int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        size = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        size = int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    _check_pixels(size, limits)


def _convert_mode(image: Image, target: ImageInput) -> Image:
    """Convert to grey ("L") or RGB, with transparent parts over the background and 16 bits cut to the upper 8."""
    from PIL import Image

    wanted = "L" if target.mode == "grey" else "RGB"
    if image.mode.startswith("I;16"):
        high = 0 if image.mode.endswith("B") else 1
        image = Image.frombytes("L", image.size, image.tobytes()[high::2])
    if image.has_transparency_data:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, _expand_colour(target.background, "rgb"))
        image = Image.alpha_composite(behind, image)
    return image.convert(wanted)


def _expand_colour(values: tuple[int, ...], mode: str) -> int | tuple[int, ...]:
    if mode == "grey":
        return values[0]
    return values * 3 if len(values) == 1 else values
