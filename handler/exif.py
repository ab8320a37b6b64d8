"""The orientation of an image from its metadata, in EXIF or XMP.

It is read here and not by Pillow, which copies what every entry points to: 64 KB of EXIF could take 300 MB. Unreadable
metadata is ignored, so no image is refused for it.
"""

from __future__ import annotations

import re
import struct

UPRIGHT = 1
_ORIENTATION = 0x0112
_NUMBERS = {3: "H", 4: "I"}  # the types that an orientation may have: SHORT, LONG
_XMP = rb'tiff:Orientation(?:="|>)([0-9])'


def read_orientation(exif: bytes, xmp: bytes = b"") -> int:
    """Return the orientation, 1 to 8, in EXIF with or without ``Exif\\0\\0`` before it, else in XMP, else UPRIGHT."""
    try:
        value = _find_orientation(exif.removeprefix(b"Exif\0\0"))
    except struct.error:  # it ends early, or points beyond its end
        value = None
    if value is None and xmp and (match := re.search(_XMP, xmp)):
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
