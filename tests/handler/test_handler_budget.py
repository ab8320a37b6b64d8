"""Small pictures with large costs: refused by what their headers say, before they are decoded."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from handler import errors
from handler.budget import FILE_SECONDS, MAX_SIDE, RequestLimits, image_cost
from handler.crop import place_image
from handler.description import ImageInput
from handler.image import read_pixels
from handler.image_header import read_orientation
from tests.conftest import ROOT
from tests.support import hostile_images as hostile

LIMITS = RequestLimits.for_memory(1769)
METHODS = [("nearest", True), ("area", True)]
METHODS += [(method, smooth) for method in ("bilinear", "bicubic", "lanczos") for smooth in (True, False)]


def target(resize: str = "bilinear", antialias: bool = True, mode: str = "rgb", side: int = 224) -> ImageInput:
    return ImageInput("image", side, side, mode, "stretch", resize, antialias=antialias)


def code(data: bytes, to: ImageInput, limits: RequestLimits = LIMITS) -> str:
    try:
        return "read" if len(read_pixels(data, "it", to, limits)) == to.size else "short"
    except errors.HandlerError as error:
        return error.code


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pictures that a decoder has begun to unpack."""
    begun: list[str] = []
    load = ImageFile.ImageFile.load
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: (begun.append(str(self.format)), load(self))[1])
    return begun


@pytest.mark.parametrize("name", hostile.REFUSED)
def test_a_costly_image_is_refused_before_it_is_decoded(name: str, loaded: list[str]) -> None:
    expected, make = hostile.REFUSED[name]
    assert code(make(), target()) == expected
    assert loaded == []


IN_LITTLE_MEMORY = """
import json, resource, sys
from tests.handler.test_handler_budget import code, target
from tests.support import hostile_images as hostile
from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
files = [make() for _, make in hostile.REFUSED.values()] + [make() for make in hostile.HARMLESS.values()]
size = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, ((size << 10) + (48 << 20), resource.RLIM_INFINITY))
json.dump([code(file, target()) for file in files], sys.stdout)
"""


def test_refusing_takes_no_memory() -> None:
    """The hostile pictures one after the other in 48 MB: at most four times the file, and none of it decoded."""
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    expected = [code for code, _ in hostile.REFUSED.values()] + ["read"] * len(hostile.HARMLESS)
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("memory", [128, 1769])
def test_an_image_of_the_most_pixels_is_taken_whatever_its_shape(memory: int) -> None:
    limits = RequestLimits.for_memory(memory)
    for ratio in (1, 4 / 3, 8, 1 / 8):
        height = int((limits.pixels / ratio) ** 0.5)
        limits.require_cost(image_cost((int(height * ratio), height), (224, 224), limits), FILE_SECONDS)


@pytest.mark.parametrize(("name", "size"), [("lanczos", (1_349, hostile.SIDE)), ("area", (hostile.SIDE, 1_349))])
def test_the_most_pixels_are_as_many_as_the_memory_is_for(name: str, size: tuple[int, int], loaded: list[str]) -> None:
    assert code(hostile.png(size), target(name), RequestLimits.for_memory(512)) == "too_many_pixels"
    assert loaded == []


def test_an_image_of_one_row_is_not_stretched_into_millions(loaded: list[str]) -> None:
    """As many as its short side would become, where the model sees a square of that."""
    short = target()._replace(fit="short")
    assert code(hostile.png((hostile.SIDE, 100)), short) == "over_budget"
    assert code(hostile.png((hostile.SIDE, 1)), target(side=8), RequestLimits(memory=1_000_000)) == "over_budget"
    assert loaded == []
    assert place_image((MAX_SIDE, 300), short).size[0] < MAX_SIDE


@pytest.mark.parametrize("scans", [10, 100, 101])
def test_scans_of_a_jpeg_are_counted(scans: int) -> None:
    """Of the ten that libjpeg writes, and the twenty of some programs, none is too many."""
    file = hostile.jpeg((64, 64), scans - 1)  # and the first, of all components
    assert code(file, target()) == ("read" if scans <= 100 else "over_budget")


def test_an_image_over_the_memory_is_refused(loaded: list[str]) -> None:
    data = hostile.png((400, 300))
    with pytest.raises(errors.OverBudgetError):
        read_pixels(data, "it", target("area"), RequestLimits(memory=1_000_000))
    assert loaded == []


@pytest.mark.parametrize("memory", [128, 1769, 10_240])
def test_an_image_that_there_is_no_time_for_may_come_again(memory: int, loaded: list[str]) -> None:
    """A function with less memory has less of a processor, and calculates as much longer."""
    data, limits = hostile.png((1_000, 1_000)), RequestLimits.for_memory(memory)
    needed = FILE_SECONDS * 1_000_000 / limits.pixels
    with pytest.raises(errors.OutOfTimeError):
        read_pixels(data, "it", target(), limits, seconds=0.9 * needed)
    assert loaded == []
    assert len(read_pixels(data, "it", target(), limits, seconds=1.1 * needed)) == target().size


WITHIN = """
import resource, sys
from handler.budget import RequestLimits, image_cost
from handler.image import read_pixels
from tests.handler.test_handler_budget import METHODS, target
from tests.support import hostile_images as hostile
from PIL import Image, ImageMath, PngImagePlugin
shapes = (2_000, 1_500), (30_000, 100), (100, 30_000)
files = {shape: hostile.png(shape) for shape in shapes}
read_pixels(hostile.png((8, 8)), "it", target("area"), RequestLimits())
def size():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmSize")) << 10
for shape in shapes:
    for resize, antialias in METHODS:
        room = image_cost(shape, (224, 224), RequestLimits()).bytes + (8 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (int(size() + room), resource.RLIM_INFINITY))
        read_pixels(files[shape], "it", target(resize, antialias), RequestLimits())
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_an_image_stays_within_its_estimated_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHIN], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", hostile.HARMLESS)
def test_excess_beside_the_pixels_is_not_looked_at(name: str) -> None:
    assert code(hostile.HARMLESS[name](), target()) == "read"


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_the_orientation_is_pillows(value: int, order: str) -> None:
    tags = Image.Exif()
    tags.endian = order
    tags[0x010F], tags[0x0112] = "a camera", value
    data = tags.tobytes()
    assert read_orientation(data) == read_orientation(data.removeprefix(b"Exif\0\0")) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Exif\0\0",
        b"Exif\0\0II*\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(100),
        b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0",
        b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\2\0\1\0\0\0\6\0\0\0",
        b"Exif\0\0XX*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0",
        hostile.exif(),
    ],
)
def test_exif_that_cannot_be_read_is_none(data: bytes) -> None:
    assert read_orientation(data) == 1
    assert code(hostile.with_segments(hostile.segment(0xE1, data)), target()) == "read"
    assert code(hostile.png((8, 8), extra=hostile.chunk(b"eXIf", data.removeprefix(b"Exif\0\0"))), target()) == "read"


def test_xmp_says_it_where_exif_does_not() -> None:
    xmp = b'<rdf:Description tiff:Orientation="6"/>'
    assert read_orientation(b"", xmp) == read_orientation(b"", b"<tiff:Orientation>6</tiff:Orientation>") == 6
    dot = Image.new("RGB", (2, 1))
    dot.putpixel((0, 0), (255, 255, 255))
    buffer = io.BytesIO()
    dot.save(buffer, "PNG")
    extra = hostile.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp)
    data = buffer.getvalue()
    upright = read_pixels(
        data[:33] + extra + data[33:], "it", ImageInput("i", 1, 2, "grey", "stretch", "nearest"), LIMITS
    )
    assert upright == b"\xff\0"


def test_xmp_in_a_jpeg() -> None:
    xmp = b'http://ns.adobe.com/xap/1.0/\0<rdf:Description tiff:Orientation="6"/>'
    picture, buffer = Image.new("RGB", (16, 16)), io.BytesIO()
    picture.paste((255, 255, 255), (0, 0, 8, 16))
    picture.save(buffer, "JPEG")
    data = buffer.getvalue()
    turned = data[:2] + hostile.segment(0xE1, xmp) + data[2:]
    found = [
        np.frombuffer(read_pixels(d, "it", target(side=8), LIMITS), np.uint8).reshape(8, 8, 3) for d in (data, turned)
    ]
    assert found[0][0, 0, 0] > 250 > 5 > found[0][0, 7, 0]
    np.testing.assert_array_equal(np.rot90(found[0], -1), found[1])


def test_a_profile_that_cannot_be_unpacked_is_none() -> None:
    for name, data in ((b"zTXt", b"no zlib"), (b"tEXt", b"\nexif\n4\nnot hexadecimal")):
        text = hostile.chunk(name, b"Raw profile type exif\0" + b"\0" * (name == b"zTXt") + data)
        assert code(hostile.png((8, 8), extra=text), target()) == "read"


@pytest.mark.parametrize("marker", [0xC3, 0xC9, 0xCA, 0xCB])
def test_a_jpeg_of_another_kind(marker: int) -> None:
    """Lossless or arithmetic-coded."""
    data = hostile.with_segments(b"")
    at = data.index(b"\xff\xc0")
    assert code(data[:at] + bytes((0xFF, marker)) + data[at + 2 :], target()) == "unsupported_image"


def test_a_marker_without_a_length_is_passed_over() -> None:
    data = hostile.with_segments(b"")
    assert code(data[:2] + b"\xff\x01" + data[2:], target()) == "read"


def test_exif_in_a_text_of_imagemagicks() -> None:
    raw = b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"
    text = b"\nexif\n%8d\n" % len(raw) + raw.hex().encode()
    dot = Image.new("RGB", (2, 1))
    dot.putpixel((0, 0), (255, 255, 255))
    buffer = io.BytesIO()
    dot.save(buffer, "PNG")
    data, to = buffer.getvalue(), ImageInput("i", 1, 2, "grey", "stretch", "nearest")
    for extra in (
        hostile.chunk(b"tEXt", b"Raw profile type exif\0" + text),
        hostile.chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(text)),
    ):
        assert read_pixels(data[:33] + extra + data[33:], "it", to, LIMITS) == b"\xff\0"
