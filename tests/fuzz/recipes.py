"""Small inputs that become costly requests: a fuzzer changes a few bytes, and so a size by a factor of two.

Whoever changes the bytes of a file or a body that asks for much mostly breaks it. So these bytes are a recipe: how
many scans, which sides, how many items. What is made is as an attacker would make it, of a few kilobytes mostly.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from PIL import Image

from handler.description import ImageInput
from tests.support import hostile_images as hostile

T = TypeVar("T")

MOST_PIXELS = 60_000_000
MOST_BYTES = 10_500_000
WHOLE_PIXELS = 16_000_000
"""Of a PNG whose pixels are all there: making more takes longer than looking at them."""
MEMORY = (128, 512, 1769, 10_240)
METHODS = ("bilinear", "nearest", "bicubic", "area", "lanczos")
MARKERS = (0xFE, 0xE1, 0xE2, 0xED, 0xDB, 0xC4, 0xDD, 0xE0, 0xEE)
CHUNKS = (b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf", b"IDAT", b"PLTE", b"tRNS", b"fcTL", b"gAMA")


class Dice:
    """Choices out of ``data``; when it is used up, the first of each."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def choose(self, *values: T) -> T:
        return values[self.byte() % len(values)]

    def up_to(self, most: int) -> int:
        """0 to ``most``, every magnitude as likely as another."""
        half = 1 << self.byte() % (most.bit_length() + 1) >> 1
        return min(half + half * (self.byte() << 8 | self.byte()) // 65_536, most)


def picture(data: bytes) -> tuple[bytes, ImageInput, int]:
    """A picture, what a model wants of it, and the megabytes of the function that it is sent to."""
    dice = Dice(data)
    make = dice.choose(*PICTURES.values())
    memory = dice.choose(*MEMORY)
    side = 1 + dice.up_to(1023)
    target = ImageInput(
        "image",
        side,
        dice.choose(side, 224, 1),
        dice.choose("rgb", "grey"),
        dice.choose("stretch", "cover", "contain", "square", "short"),
        dice.choose(*METHODS),
        antialias=dice.choose(True, False),
        decode=dice.choose("fast", "exact"),
    )
    return make(dice)[:MOST_BYTES], target, memory


def _size(dice: Dice, most: int = MOST_PIXELS, side: int = 65_535) -> tuple[int, int]:
    width = 1 + dice.up_to(side - 1)
    return width, 1 + dice.up_to(min(side - 1, max(most // width - 1, 0)))


def jpeg_scans(dice: Dice) -> bytes:
    size, scans = _size(dice), dice.up_to(2_000)
    frame, components = dice.choose(0xC2, 0xC0, 0xC1, 0xCA, 0xC3), dice.choose(3, 1, 4)
    return hostile.jpeg(size, scans, frame=frame, components=components, block_runs=dice.choose(True, False))


def jpeg_segments(dice: Dice) -> bytes:
    marker, content = dice.choose(*MARKERS), dice.choose(b"", b"\0" + b"\1" * 64, b"Exif\0\0", b"Photoshop 3.0\0")
    one = hostile.segment(marker, content * min(1 + dice.up_to(10_000), 65_000 // (len(content) or 1)))
    return hostile.with_segments(one * min(dice.up_to(3_000_000), MOST_BYTES // len(one)))


def exif(dice: Dice) -> bytes:
    tiff = hostile.exif(dice.up_to(5_400), dice.up_to(65_000))
    count = 1 + dice.up_to(MOST_BYTES // len(tiff) - 1)
    if dice.choose(True, False):
        return hostile.with_segments(hostile.segment(0xE1, tiff) * count)
    return hostile.png((8, 8), extra=hostile.chunk(b"eXIf", tiff[6:]) * count)


def bmp_in_runs(dice: Dice) -> bytes:
    return hostile.bmp_in_runs(_size(dice), dice.choose(8, 4))


def png_of_any_size(dice: Dice) -> bytes:
    size, channels = _size(dice, side=MOST_PIXELS), dice.choose(3, 1, 4)
    if size[0] * size[1] <= WHOLE_PIXELS and size[1] <= 65_536:
        return _png(size, channels)
    header = struct.pack(">IIBBBBB", *size, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + hostile.chunk(b"IHDR", header) + hostile.chunk(b"IDAT", b"x\x9c")


@functools.lru_cache(maxsize=8)
def _png(size: tuple[int, int], channels: int) -> bytes:
    return hostile.png(size, channels=channels)


def png_chunks(dice: Dice) -> bytes:
    content = dice.choose(b"", b"a\0", b"a\0\0", hostile.PROFILE, b"XML:com.adobe.xmp\0\0\0\0\0")
    one = hostile.chunk(dice.choose(*CHUNKS), content)
    return hostile.png((8, 8), extra=one * min(dice.up_to(1_000_000), MOST_BYTES // len(one)))


def gif_blocks(dice: Dice) -> bytes:
    before = dice.choose(b"\0", b"!\xfe\0", b"!\xf9\4\0\0\0\0\0", b"!\xff\1a\0")
    return hostile.gif(before * min(dice.up_to(MOST_BYTES), MOST_BYTES // len(before)))


def photograph(dice: Dice) -> bytes:
    """What people send, in every format: that it is answered within its estimate."""
    form, options = dice.choose(
        ("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("WEBP", {"method": 0}), ("GIF", {}), ("BMP", {})
    )
    noise = Image.effect_noise(_size(dice, most=1_000_000), 1 + dice.up_to(200))
    made = noise.convert(dice.choose("RGB", "L", "RGBA") if form in ("PNG", "WEBP") else "RGB")
    buffer = io.BytesIO()
    try:
        made.save(buffer, form, **options)
    except ValueError:  # WebP has sides of 16,383 at most
        made.crop((0, 0, min(made.width, 16_383), min(made.height, 16_383))).save(buffer, form, **options)
    return buffer.getvalue()


PICTURES: dict[str, Callable[[Dice], bytes]] = {
    kind.__name__: kind
    for kind in (
        photograph,
        jpeg_scans,
        jpeg_segments,
        exif,
        bmp_in_runs,
        png_of_any_size,
        png_chunks,
        gif_blocks,
    )
}


# Requests.


def request(data: bytes) -> tuple[str, bytes, dict[str, str]]:
    """A path, a body and headers: many small items for a model, in each protocol."""
    dice = Dice(data)
    model = dice.choose("echo", "sized", "brightness")
    make = dice.choose(v1, v2, v2_binary, v2_elements, pictures, empty_lists, form)
    return make(dice, model)


def _item(dice: Dice) -> tuple[list[int], Any]:
    """A shape, and lists of it."""
    shape, value = [1 + dice.up_to(255) for _ in range(dice.choose(3, 2, 1, 4, 0))], dice.choose(1, 0.5, None, "")
    value = json.dumps(value)
    for size in reversed(shape):
        value = "[" + ",".join([value] * min(size, 1 + 100_000 // len(value))) + "]"
    return shape, value


def _some(item: str, count: int) -> str:
    return "[" + ",".join([item] * min(count, 6_000_000 // (len(item) + 1))) + "]"


def v1(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    key, (_, item), count = dice.choose("instances", "inputs"), _item(dice), dice.up_to(3_000_000)
    return f"/v1/models/{model}:predict", f'{{"{key}": {_some(item, count)}}}'.encode(), {}


def v2(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    (shape, item), count = _item(dice), dice.up_to(3_000_000)
    declared = dice.choose(count, dice.up_to(2**40))
    kind = dice.choose("FP32", "UINT8", "BYTES")
    head = json.dumps({"name": dice.choose("x", "image"), "datatype": kind, "shape": [declared, *shape]})
    return f"/v2/models/{model}/infer", f'{{"inputs": [{head[:-1]}, "data": {_some(item, count)}}}]}}'.encode(), {}


def v2_binary(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    """Zeros, of any shape."""
    shape, size = [dice.up_to(5_000), *_item(dice)[0]], dice.up_to(4_500_000)
    value = {"name": dice.choose("x", "image"), "datatype": dice.choose("FP32", "UINT8"), "shape": shape}
    return _binary(model, value, bytes(size))


def v2_elements(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    """BYTES, all of one length."""
    one = dice.choose(b"", _dot())
    count = min(dice.up_to(1_125_000), 4_500_000 // (4 + len(one)))
    value = {"name": "image", "datatype": "BYTES", "shape": [dice.choose(count, dice.up_to(64))]}
    return _binary(model, value, (struct.pack("<I", len(one)) + one) * count, outputs=[{"name": "level"}])


def _binary(model: str, value: dict[str, Any], data: bytes, **rest: Any) -> tuple[str, bytes, dict[str, str]]:
    text = json.dumps({"inputs": [value | {"parameters": {"binary_data_size": len(data)}}], **rest}).encode()
    return f"/v2/models/{model}/infer", text + data, {"inference-header-content-length": str(len(text))}


def pictures(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    """Pictures of a pixel, whose answers may be large."""
    count, text = dice.up_to(100), base64.b64encode(_dot()).decode()
    if dice.choose(True, False):
        return f"/v1/models/{model}:predict", json.dumps({"instances": [{"b64": text}] * count}).encode(), {}
    return "/predict", json.dumps({"images": [text] * count, "model": model}).encode(), {}


def empty_lists(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    item = dice.choose("[]", "{}", "0", '""', "[[[]]]", '{"a":{}}', "1e9")
    body = f'{{"inputs": {{"x": {_some(item, dice.up_to(3_000_000))}}}, "model": "{model}"}}'
    return "/predict", body.encode(), {}


def form(dice: Dice, model: str) -> tuple[str, bytes, dict[str, str]]:
    line = b'Content-Disposition: form-data; name="x"\r\n'
    head = dice.choose(b"", b"a:\r\n", b";" * 64, b"\t" * 64) * dice.up_to(500_000)
    part = b"--b\r\n" + line + head[:4_000_000] + b"\r\n" + dice.choose(_dot(), b"") + b"\r\n"
    body = part * min(dice.up_to(1_000_000), 5_000_000 // len(part)) + b"--b--"
    return "/predict", body, {"content-type": "multipart/form-data; boundary=b"}


@functools.cache
def _dot() -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (1, 1), 200).save(buffer, "GIF")
    return buffer.getvalue()
