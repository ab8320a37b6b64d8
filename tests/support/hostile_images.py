"""Small files that ask for much: pictures that take seconds or gigabytes where nothing counts first."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

from PIL import Image

MEGAPIXELS_43 = 8192, 5248
SIDE = 32_768
PROFILE = b"a\0\0" + zlib.compress(bytes(1 << 20))
"""A colour profile of a PNG, 1 MB from 1 KB."""


def segment(marker: int, content: bytes) -> bytes:
    """A segment of a JPEG."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def jpeg(
    size: tuple[int, int], scans: int, *, frame: int = 0xC2, components: int = 3, block_runs: bool = True
) -> bytes:
    """A JPEG of ``size``, grey all over, whose ``scans`` say nothing. ``block_runs``: they say so of every block."""
    width, height = size
    parts = b"".join(bytes([number, 0x11, 0]) for number in range(1, components + 1))
    lengths = bytes(15 if length == 4 else 0 for length in range(1, 17))
    tables = segment(0xC4, b"\x10" + lengths + bytes(run << 4 for run in range(15)))  # AC: runs of blocks that end
    tables += segment(0xC4, b"\x00" + bytes([1, 1] + [0] * 14) + b"\0\1")  # DC: no difference
    head = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    head += segment(frame, struct.pack(">BHHB", 8, height, width, components) + parts) + tables
    all_of_them = bytes([components]) + b"".join(bytes([number, 0]) for number in range(1, components + 1))
    head += segment(0xDA, all_of_them + bytes([0, 0, 1]))
    runs = _block_runs(-(-width // 8) * -(-height // 8)) if block_runs else b""
    body = (
        segment(0xDA, bytes([1, 1 + at % components, 0, 1 + at % 63, 1 + at % 63, 1])) + runs for at in range(scans)
    )
    return head + b"".join(body) + b"\xff\xd9"


def _block_runs(blocks: int) -> bytes:
    """Entropy-coded data that says of so many blocks that they have nothing."""
    bits = ""
    while blocks:
        run = min(blocks, 32_767)
        length = run.bit_length() - 1
        bits += f"{length:04b}" + (f"{run - (1 << length):0{length}b}" if length else "")
        blocks -= run
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")


def with_segments(extra: bytes) -> bytes:
    """A small JPEG with ``extra`` before its tables."""
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 10, 10)).save(buffer, "JPEG")
    data = buffer.getvalue()
    return data[:2] + extra + data[2:]


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(size: tuple[int, int], *, channels: int = 3, extra: bytes = b"") -> bytes:
    """A black PNG; ``extra``: chunks before the picture."""
    width, height = size
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    packer, row = zlib.compressobj(6), bytes(1 + width * channels)
    packed = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def bmp_in_runs(size: tuple[int, int], bits: int = 8) -> bytes:
    """A BMP with run-length encoding: of each row a pixel, and that it ends. The rest is filled up in Python."""
    compression, colours = {8: 1, 4: 2}[bits], 1 << bits
    start, runs = 54 + 4 * colours, b"\1\0\0\0" * size[1] + b"\0\1"
    header = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, len(runs), 0, 0, colours, 0)
    return b"BM" + struct.pack("<IHHI", start + len(runs), 0, 0, start) + header + bytes(4 * colours) + runs


def gif(before: bytes) -> bytes:
    """A GIF with ``before`` its first frame, which is not there."""
    return b"GIF89a" + struct.pack("<HHBBB", 8, 8, 0, 0, 0) + before + b","


def exif(entries: int = 5_400, each: int = 60_000) -> bytes:
    """EXIF whose entries are all the same ``each`` bytes: 300 MB, if each is copied."""
    listed = b"".join(struct.pack("<HHII", 0x9000 + at, 1, each, 8) for at in range(entries))
    return (b"Exif\0\0II*\0" + struct.pack("<IH", 8, entries) + listed)[:65_500]


REFUSED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "progressive JPEG, 43 Mpix, 1,000 empty scans": ("over_budget", lambda: jpeg(MEGAPIXELS_43, 1_000)),
    "the same scans without any data": ("over_budget", lambda: jpeg(MEGAPIXELS_43, 1_000, block_runs=False)),
    "arithmetic JPEG": ("unsupported_image", lambda: jpeg(MEGAPIXELS_43, 0, frame=0xCA)),
    "lossless JPEG": ("unsupported_image", lambda: jpeg(MEGAPIXELS_43, 0, frame=0xC3)),
    "JPEG, 2,400,000 comments": ("over_budget", lambda: with_segments(segment(0xFE, b"") * 2_400_000)),
    "JPEG, 150,000 quantisation tables": (
        "over_budget",
        lambda: with_segments(segment(0xDB, (b"\0" + b"\1" * 64) * 1000) * 150),
    ),
    "BMP RLE8": ("unsupported_image", lambda: bmp_in_runs((6_600, 6_600))),
    "BMP RLE4": ("unsupported_image", lambda: bmp_in_runs((6_600, 6_600), 4)),
    "PNG 44,000,000 × 1": ("too_many_pixels", lambda: png((44_000_000, 1), channels=1)),
    "PNG 1 × 32,769": ("too_many_pixels", lambda: png((1, SIDE + 1))),
    "PNG, 700,000 texts": ("over_budget", lambda: png((8, 8), extra=chunk(b"tEXt", b"a\0") * 700_000)),
    "PNG, 700,000 empty IDAT": ("over_budget", lambda: png((8, 8), extra=chunk(b"IDAT", b"") * 700_000)),
    "GIF, 9,900,000 bytes of nothing": ("over_budget", lambda: gif(bytes(9_900_000))),
    "GIF, 3,300,000 comments": ("over_budget", lambda: gif(b"!\xfe\0" * 3_300_000)),
}
"""The code of the refusal, and the file."""

HARMLESS: dict[str, Callable[[], bytes]] = {
    "JPEG, 9,900,000 bytes of padding": lambda: with_segments(b"\xff" * 9_900_000),
    "JPEG, EXIF that is 300 MB": lambda: with_segments(segment(0xE1, exif())),
    "JPEG, 150 segments of EXIF": lambda: with_segments(segment(0xE1, exif()) * 150),
    "JPEG, 800,000 resources of Photoshop": lambda: with_segments(
        segment(0xED, b"Photoshop 3.0\0" + b"8BIM\4\0\0\0\0\0\0\0" * 5_400) * 150
    ),
    "PNG, 8,000 profiles of 1 MB": lambda: png((8, 8), extra=chunk(b"iCCP", PROFILE) * 8_000),
}
"""Files whose excess is in what does not matter to the pixels: they are read, and cost no more than others."""
