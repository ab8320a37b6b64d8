"""The example: brightness 7's answer to files."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from brightness import FEEDS, Feeds, Model, ModelError, Port


def pixels(data: bytes, path: str) -> bytes:
    """The pixels of a picture, which must have the model's size. Raises ModelError.

    A binary PPM (P6) or PGM (P5) must have the model's colours, too. Any other format is for Pillow to read.
    """
    header = re.match(rb"P([56])" + 3 * rb"(?:\s|#[^\n]*\n)+(\d{1,6})" + rb"\s", data)
    if header is None:
        return _decoded(data, path)
    if header[4] != b"255":
        raise ModelError(f"{path} is no binary PPM or PGM of 8 bits")
    _require_fit(path, int(header[2]), int(header[3]), "grey" if header[1] == b"5" else "rgb")
    return data[header.end() :]


def _decoded(data: bytes, path: str) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        raise ModelError(f"{path} is no binary PPM or PGM; install Pillow to read JPEG, PNG and others") from None
    try:
        picture = Image.open(io.BytesIO(data)).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise ModelError(f"{path} is no binary PPM or PGM, and Pillow cannot read it: {error}") from error
    _require_fit(path, picture.width, picture.height, "rgb")
    return picture.tobytes()


def _require_fit(path: str, width: int, height: int, mode: str) -> None:
    if (width, height, mode) != (8, 8, "rgb"):
        raise ModelError(f"{path}: the picture is {width}x{height} {mode}; the model takes 8x8 rgb")


def read_feed(path: str, port: Port) -> bytes:
    """The content of a file: the feed's raw bytes, or a picture of 8x8 as binary PPM or PGM. Raises ModelError.

    Where Pillow is installed, the picture may be a JPEG or PNG, too.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
    if port.name == "image" and len(data) != port.size:
        data = pixels(data, path)
    if len(data) != port.size:
        raise ModelError(f"{path}: {len(data)} bytes; feed {port.name} takes {port.size}")
    return data


def main(paths: list[str]) -> int:
    """Run the model on files and print its answer."""
    if len(paths) != len(FEEDS):
        print("usage: python -m brightness photo.ppm", file=sys.stderr)
        return 2
    try:
        with Model() as model:
            fetches = model.run(Feeds(*map(read_feed, paths, FEEDS)))
    except ModelError as error:
        print(f"predict: {error}", file=sys.stderr)
        return 1
    print("tone:", ", ".join(f"{c.label} {c.probability:.6f}" for c in fetches.rank_tone()))
    print("level:", *(f"{v:.6f}" for v in fetches.level.cast("B").cast("f")[:8]))
    print("pixels:", *(str(int(v)) for v in fetches.pixels.cast("B").cast("B")[:8]), "...")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
