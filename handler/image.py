"""An image file becomes the raw pixels a model takes.

bytes → decode → colour mode → upright (EXIF) → resize → uint8 bytes. Formats are recognised by
their first bytes, and only the plugin of that format is imported and asked: Pillow's own ``open`` would
import five of them, and try each.
"""

from __future__ import annotations

import importlib
import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import (
    DamagedImageError,
    HandlerError,
    NotAnImageError,
    TooLargeError,
    TooManyPixelsError,
    TruncatedImageError,
)

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

    from .description import ImageInput


PIXELS_PER_MB = 25_000  # decoding takes up to 24 bytes a pixel (a rotated WebP with alpha): 60 % of the memory


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    encoded: int = 10_000_000  # bytes of one image file; Lambda's own limit on a request is about 4.5 MB of image
    pixels: int = 50_000_000
    images: int = 64
    items: int = 4096  # of tensors, in as many runs as the compiled batch makes of them

    @classmethod
    def for_memory(cls, megabytes: int) -> Limits:
        """The usual limits, with only as many pixels as a function of this memory can decode."""
        return cls(pixels=min(cls.pixels, megabytes * PIXELS_PER_MB))


ACCEPTED = "JPEG, PNG, WebP, GIF or BMP"
_MAGIC = ((b"\xff\xd8\xff", "Jpeg"), (b"\x89PNG\r\n\x1a\n", "Png"), (b"GIF8", "Gif"), (b"BM", "Bmp"))
_FILTERS = {"nearest": "NEAREST", "bilinear": "BILINEAR", "bicubic": "BICUBIC", "area": "BOX", "lanczos": "LANCZOS"}
_TOO_SHORT = ("truncated", "eof", "not enough")  # in the messages of Pillow's decoders
_EXIF_ORIENTATION = 0x0112
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def load_decoders() -> None:
    """Import what most pictures need, ahead of the first; the other formats' plugins come when they do."""
    importlib.import_module("PIL.JpegImagePlugin")
    importlib.import_module("PIL.PngImagePlugin")


def pixels(data: bytes, where: str, target: ImageInput, limits: Limits) -> bytes:
    """The image file ``data`` as ``target.size`` bytes, row-major, uint8. ``where`` names it in messages.

    Raises HandlerError.
    """
    try:
        if len(data) > limits.encoded:
            raise TooLargeError(f"has {len(data):,} bytes; at most {limits.encoded:,} are taken")
        return _fit(_decode(data, target, limits), target).tobytes()
    except HandlerError as error:
        raise type(error)(f"{where} {error.message}") from error.__cause__


def _decode(data: bytes, target: ImageInput, limits: Limits) -> Image:
    """Decoded, in the target's colour mode, upright."""
    plugin = next((name for magic, name in _MAGIC if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        plugin = "WebP"
        _check_webp(data, limits)
    if plugin is None:
        raise NotAnImageError(f"is no image that is taken here; send {ACCEPTED}")
    module = importlib.import_module(f"PIL.{plugin}ImagePlugin")
    try:
        with warnings.catch_warnings():  # Pillow warns of odd metadata, with the file's own words
            warnings.simplefilter("ignore")
            picture: ImageFile = getattr(module, f"{plugin}ImageFile")(io.BytesIO(data))
            _check_pixels(picture.size, limits)
            picture.load()
            orientation = picture.getexif().get(_EXIF_ORIENTATION)
            return _upright(_in_mode(picture, target.mode), orientation)
    except (HandlerError, MemoryError):
        raise
    except Exception as error:  # decoders raise what they like: OSError, SyntaxError, ValueError, struct.error, ...
        if isinstance(error, EOFError) or any(word in str(error).lower() for word in _TOO_SHORT):
            raise TruncatedImageError(f"is a {plugin.upper()} file that ends too early") from error
        raise DamagedImageError(f"is a {plugin.upper()} file that cannot be decoded") from error


def _check_pixels(size: tuple[int, int], limits: Limits) -> None:
    width, height = size
    if width * height > limits.pixels:
        raise TooManyPixelsError(f"has {width} × {height} pixels; at most {limits.pixels:,} in all are taken")


def _check_webp(data: bytes, limits: Limits) -> None:
    """Length and size out of the header: libwebp takes memory for the whole canvas as soon as it is opened."""
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


def _in_mode(picture: Image, mode: str) -> Image:
    """Grey ("L") or RGB; transparent parts over white; 16 bits reduced to the upper 8, as for 16-bit RGB."""
    from PIL import Image

    wanted = "L" if mode == "grey" else "RGB"
    if picture.mode.startswith("I;16"):
        high = 0 if picture.mode.endswith("B") else 1
        picture = Image.frombytes("L", picture.size, picture.tobytes()[high::2])
    elif picture.mode in ("I", "F"):
        picture = picture.point(lambda value: value * (1 / 256)).convert("L")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return picture.convert(wanted)


def _upright(picture: Image, orientation: object) -> Image:
    from PIL import Image

    name = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return picture.transpose(Image.Transpose[name]) if name else picture


def _fit(picture: Image, target: ImageInput) -> Image:
    """Resized to the target: stretched, cropped around the centre (cover) or padded with black (contain)."""
    from PIL import Image

    method = Image.Resampling[_FILTERS[target.resize]]
    size = target.width, target.height
    if picture.size == size:
        return picture
    if target.fit == "stretch":
        return picture.resize(size, method)
    ratios = target.width / picture.width, target.height / picture.height
    if target.fit == "cover":
        scale = max(ratios)
        width, height = target.width / scale, target.height / scale  # of the part that is kept
        left, top = (picture.width - width) / 2, (picture.height - height) / 2
        # Rounding must not put the box outside the picture.
        box = max(left, 0.0), max(top, 0.0), min(left + width, picture.width), min(top + height, picture.height)
        return picture.resize(size, method, box=box)
    scale = min(ratios)
    width = min(target.width, max(1, round(picture.width * scale)))
    height = min(target.height, max(1, round(picture.height * scale)))
    canvas = Image.new(picture.mode, size)
    canvas.paste(picture.resize((width, height), method), ((target.width - width) // 2, (target.height - height) // 2))
    return canvas
