"""How a camera was held, out of a picture's metadata: EXIF's orientation, or XMP's.

Read here and not by Pillow, which copies what every entry points to: 64 KB of EXIF could take 300 MB. Metadata that
cannot be read is none: a picture is not refused for it.
"""

from __future__ import annotations

import re
import struct

UPRIGHT = 1
_ORIENTATION = 0x0112
_NUMBERS = {3: "H", 4: "I"}  # the types that such an entry may have: SHORT, LONG
_XMP = rb'tiff:Orientation(?:="|>)([0-9])'


def read_orientation(exif: bytes, xmp: bytes = b"") -> int:
    """1 to 8, of a TIFF file ``exif`` with or without ``Exif\\0\\0`` before it; UPRIGHT where nothing says anything."""
    try:
        value = _find_orientation(exif.removeprefix(b"Exif\0\0"))
    except struct.error:  # it ends early, or points beyond its end
        value = None
    if value is None and xmp and (found := re.search(_XMP, xmp)):
        value = int(found[1])
    return value if value is not None and 1 <= value <= 8 else UPRIGHT


def _find_orientation(tiff: bytes) -> int | None:
    """The entry of the first directory. Raises struct.error."""
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
