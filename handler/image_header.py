"""Headers of image files, read before a decoder sees them, to bound its work and to keep only the data that it needs.

Pillow reads the data before an image in Python, byte by byte or piece by piece, and keeps it all; ten megabytes of
comments would take seconds. Here pieces are counted, and those without effect on the pixels are left out. Pillow also
copies what every entry of EXIF points to: 64 KB of it could take 300 MB. So the orientation is read here; unreadable
metadata is ignored, so no image is refused for it.
"""

from __future__ import annotations

import re
import struct

from .errors import DamagedImageError, OverBudgetError, TruncatedImageError, UnsupportedImageError
from .named_tuples import NamedTuple

MOST_STEPS = 16_384
"""Segments, chunks or blocks of a file."""
MOST_SCANS = 100
"""Scans of a JPEG, each of which visits every block again. libjpeg writes ten, some programs twenty."""
MOST_TABLES = 65_536
"""Bytes of a JPEG's tables; four for quantisation and eight of Huffman's have 3 KB."""
MOST_TEXT = 1 << 20
"""Bytes of a compressed text of a PNG after decompression."""

_MARKER = re.compile(rb"\xff([\x01-\xfe])", re.DOTALL)
_EOI, _SOS, _APP1 = 0xD9, 0xDA, 0xE1
_ALONE = (0x01, *range(0xD0, 0xD8))  # TEM and RST0 to RST7: markers without a segment
_FRAMES = (0xC0, 0xC1, 0xC2)  # baseline, extended, progressive, with Huffman's code
_TABLES = (0xC4, 0xDB, 0xDD)  # DHT, DQT, DRI
_COLOURS = (0xE0, 0xEE)  # APP0 of JFIF and APP14 of Adobe: which colours the components are
_SKIPPED = (0xDC, *range(0xE0, 0xF0), 0xFE)  # DNL, APP0 to APP15, COM
_OTHER_FRAMES = range(0xC3, 0xD0)
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"

UPRIGHT = 1
_ORIENTATION = 0x0112
_NUMBERS = {3: "H", 4: "I"}  # the types that an orientation may have: SHORT, LONG
_TIFF_XMP = rb'tiff:Orientation(?:="|>)([0-9])'

_PNG_KEPT = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_PNG_XMP = b"XML:com.adobe.xmp\0\0\0\0\0"  # uncompressed, without a language
_PNG_EXIF = b"Raw profile type exif\0"  # as ImageMagick writes it: in hexadecimal digits, after three lines


class ImageHeader(NamedTuple):
    """An image's metadata, ``exif`` and ``xmp``, unparsed; and ``data``, the file with only what its decoder needs."""

    data: bytes
    exif: bytes = b""
    xmp: bytes = b""


def read_image_header(plugin: str, data: bytes) -> ImageHeader:
    """Return the header of the file ``data``, which Pillow's ``plugin`` will decode. Raises HandlerError."""
    look = {"Jpeg": _read_jpeg, "Png": _read_png, "Gif": _read_gif}.get(plugin)
    return look(data) if look else ImageHeader(data)


def _read_jpeg(data: bytes) -> ImageHeader:
    """Keep tables, frame and scans. Bytes between two segments are skipped, as libjpeg skips them."""
    kept, size, exif, xmp, at = [b"\xff\xd8"], 0, b"", b"", 2
    for _ in range(MOST_STEPS):
        match = _MARKER.search(data, at)
        if match is None or match[1][0] == _EOI:
            raise TruncatedImageError("is a JPEG file that ends too early")
        marker, at = match[1][0], match.end()
        if marker in _ALONE:
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        segment, at = data[at - 2 : at + length], at + length
        if at > len(data):
            raise TruncatedImageError("is a JPEG file that ends too early")
        if marker == _SOS and length >= 2:
            # This also counts the scans of other images in the file: too many rather than too few.
            if data.count(b"\xff\xda", at) >= MOST_SCANS:
                raise OverBudgetError(f"is a JPEG file with more than {MOST_SCANS} scans")
            return ImageHeader(b"".join(kept) + data[match.start() :], exif, xmp)
        content = segment[4:]
        if marker in _OTHER_FRAMES and marker not in _TABLES:
            raise UnsupportedImageError("is a JPEG file of an unsupported kind; save it as baseline or progressive")
        if length < 2 or not (marker in _FRAMES or marker in _TABLES or marker in _SKIPPED):
            raise DamagedImageError("is a JPEG file that cannot be decoded")
        if marker == _APP1 and content.startswith(_EXIF):
            exif = exif or content
        elif marker == _APP1 and content.startswith(_XMP):
            xmp = content
        elif marker in _FRAMES or marker in _TABLES or marker in _COLOURS:
            kept.append(segment)
            size += len(segment)
        if size > MOST_TABLES:
            raise OverBudgetError(f"is a JPEG file with more than {MOST_TABLES:,} bytes of tables")
    raise _too_many("JPEG", "segments")


def _read_png(data: bytes) -> ImageHeader:
    """Keep the chunks of the image, without other frames, profiles and texts."""
    kept, exif, xmp, at = [data[:8]], b"", b"", 8
    for _ in range(MOST_STEPS):
        name, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
        if len(name) < 4 or end > len(data) or name in _PNG_KEPT:  # Pillow checks whether the last one is whole
            kept.append(data[at:end])
        elif name == b"eXIf":
            exif = data[at + 8 : end - 4]
        elif name == b"iTXt" and data.startswith(_PNG_XMP, at + 8):
            xmp = data[at + 8 : end - 4]
        elif name in (b"tEXt", b"zTXt") and data.startswith(_PNG_EXIF, at + 8):
            exif = exif or _read_exif_profile(name, data[at + 8 + len(_PNG_EXIF) : end - 4])
        if name == b"IEND" or end >= len(data):
            return ImageHeader(b"".join(kept), exif, xmp)
        at = end
    raise _too_many("PNG", "chunks")


def _read_exif_profile(name: bytes, text: bytes) -> bytes:
    import zlib

    try:
        if name == b"zTXt":
            text = zlib.decompressobj().decompress(text[1:], MOST_TEXT)
        return bytes.fromhex("".join(text.decode("latin-1").split("\n")[3:]))
    except (zlib.error, ValueError):
        return b""


def _read_gif(data: bytes) -> ImageHeader:
    """Count the blocks before the first frame, and each byte between them."""
    at, in_block = 13 + (3 << (data[10] & 7) + 1 if data[10:11] and data[10] & 128 else 0), False
    for _ in range(MOST_STEPS):
        byte = data[at] if at < len(data) else None
        if byte is None or (byte == ord(";") and not in_block):
            raise TruncatedImageError("is a GIF file that ends too early")
        if in_block:
            at, in_block = at + byte + 1, byte > 0
        elif byte == ord(","):
            return ImageHeader(data)
        elif byte == ord("!"):
            at, in_block = at + 2, True
        else:
            at += 1
    raise _too_many("GIF", "blocks")


def _too_many(name: str, pieces: str) -> OverBudgetError:
    return OverBudgetError(f"is a {name} file with more than {MOST_STEPS:,} {pieces} before its image")


def read_orientation(exif: bytes, xmp: bytes = b"") -> int:
    """Return the orientation, 1 to 8, in EXIF with or without its name before it, else in XMP, else UPRIGHT."""
    try:
        value = _find_orientation(exif.removeprefix(b"Exif\0\0"))
    except struct.error:  # it ends early, or points beyond its end
        value = None
    if value is None and xmp and (match := re.search(_TIFF_XMP, xmp)):
        value = int(match[1])
    return value if value is not None and 1 <= value <= 8 else UPRIGHT


def _find_orientation(tiff: bytes) -> int | None:
    """Return the orientation in the first directory, or None. Raises struct.error."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return None
    (start,) = struct.unpack_from(f"{order}I", tiff, 4)
    (count,) = struct.unpack_from(f"{order}H", tiff, start)
    for at in range(start + 2, start + 2 + 12 * count, 12):
        tag, kind, length = struct.unpack_from(f"{order}HHI", tiff, at)
        if tag == _ORIENTATION and kind in _NUMBERS and length:
            value: int = struct.unpack_from(order + _NUMBERS[kind], tiff, at + 8)[0]
            return value
    return None
