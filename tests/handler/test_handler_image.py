"""Pictures in every accepted form become the pixels that the model takes."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageOps

from handler import errors
from handler.budget import RequestLimits
from handler.description import ImageInput
from handler.image import read_pixels
from handler.request import encoded_file

PHOTOS = Path(__file__).parents[1] / "data"
LIMITS = RequestLimits()
FITS = ("stretch", "cover", "contain", "square", "short", "short_rounded", "short_exact", "stretch_exact")


def target(
    width: int = 4, height: int = 3, mode: str = "rgb", fit: str = "stretch", resize: str = "nearest", **rest: Any
) -> ImageInput:
    return ImageInput("image", width, height, mode, fit, resize, **rest)


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def encoded(picture: Image.Image, form: str, **options: Any) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return text(buffer.getvalue())


def read(value: object, to: ImageInput, limits: RequestLimits = LIMITS) -> bytes:
    source = encoded_file(value, '"image"', limits.encoded)
    return read_pixels(source.data, source.where, to, limits)


RED, GREEN = (255, 0, 0), (0, 128, 0)


@pytest.mark.parametrize(("form", "options"), [("PNG", {}), ("BMP", {}), ("GIF", {}), ("WEBP", {"lossless": True})])
def test_lossless_formats_keep_every_pixel(form: str, options: dict[str, Any]) -> None:
    picture = Image.new("RGB", (4, 3), RED)
    picture.putpixel((2, 1), GREEN)
    assert read(encoded(picture, form, **options), target()) == picture.tobytes()


PHOTOGRAPHS = ["face.jpg", "astronaut.jpg", "coffee.jpg", "cat_exif_rotated.jpg"]


@pytest.mark.parametrize("name", PHOTOGRAPHS)
@pytest.mark.parametrize(("mode", "pillow"), [("rgb", "RGB"), ("grey", "L")])
def test_photographs_agree_with_pillow_step_by_step(name: str, mode: str, pillow: str) -> None:
    data = (PHOTOS / name).read_bytes()
    opened = Image.open(io.BytesIO(data))
    opened.draft(pillow, None)  # a JPEG's own brightness is its grey, without the way over colours
    picture = ImageOps.exif_transpose(opened).convert(pillow)
    expected = picture.resize((64, 48), Image.Resampling.BILINEAR).tobytes()
    assert read(text(data), target(64, 48, mode, resize="bilinear", decode="exact")) == expected


def far(a: bytes, b: bytes) -> tuple[int, float]:
    """The largest difference of two pictures' bytes, and the mean."""
    differences = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return max(differences), sum(differences) / len(differences)


@pytest.mark.parametrize("size", [(97, 130), (300, 600), (450, 300), (301, 141)])
def test_exact_fits_are_a_resized_image_and_its_middle(size: tuple[int, int]) -> None:
    with Image.open(PHOTOS / "coffee.jpg") as opened:
        picture = opened.convert("RGB").resize(size)
    value, short = encoded(picture, "PNG"), min(size)
    wholes = {"short_exact": [int(256 * side / short) for side in size], "stretch_exact": [256, 256]}
    for fit, (width, height) in wholes.items():
        left, top = (width - 224) // 2, (height - 224) // 2
        wanted = picture.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + 224, top + 224))
        own = Image.frombytes("RGB", (224, 224), read(value, target(224, 224, "rgb", fit, "bilinear", crop=0.875)))
        assert max(high for _, high in ImageChops.difference(own, wanted).getextrema()) <= 1, fit


@pytest.mark.parametrize("name", PHOTOGRAPHS)
@pytest.mark.parametrize("fit", ["stretch", "cover", "contain"])
@pytest.mark.parametrize("resize", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("mode", ["rgb", "grey"])
def test_a_jpeg_decoded_smaller_is_nearly_the_same(name: str, fit: str, resize: str, mode: str) -> None:
    value = text((PHOTOS / name).read_bytes())
    fast, exact = (read(value, target(20, 24, mode, fit, resize, decode=d)) for d in ("fast", "exact"))
    most, mean = far(fast, exact)
    assert most <= 5
    assert mean <= 0.7
    assert name == "face.jpg" or fast != exact, "this photograph is large enough to be decoded smaller"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_of_odd_size_decoded_smaller_stays_in_its_place(orientation: int) -> None:
    """443 × 299 is no multiple of 2, 4 or 8: being off by a part of a pixel would show."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = Image.open(PHOTOS / "coffee.jpg").crop((3, 0, 446, 299))
    value = encoded(photo, "JPEG", quality=95, exif=exif)
    for fit in FITS:
        fast, exact = (read(value, target(24, 16, "rgb", fit, "bilinear", decode=d)) for d in ("fast", "exact"))
        most, mean = far(fast, exact)
        assert most <= 5, fit
        assert mean <= 0.5, fit


@pytest.mark.parametrize(("resize", "antialias"), [("nearest", True), ("area", True), ("bilinear", False)])
def test_an_image_that_is_sampled_is_never_decoded_smaller(resize: str, antialias: bool) -> None:
    value = text((PHOTOS / "astronaut.jpg").read_bytes())
    fast, exact = (read(value, target(24, 16, resize=resize, antialias=antialias, decode=d)) for d in ("fast", "exact"))
    assert fast == exact


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_made_upright(orientation: int) -> None:
    picture = Image.frombytes("L", (3, 2), bytes([10, 20, 30, 40, 50, 60]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    value = encoded(picture, "PNG", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(base64.b64decode(value))))
    assert read(value, target(*upright.size, "grey")) == upright.tobytes()


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_meaningless_orientation_is_ignored(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.new("RGB", (4, 3), RED)
    assert read(encoded(picture, "PNG", exif=exif), target()) == picture.tobytes()


@pytest.mark.parametrize(
    ("picture", "options", "expected"),
    [
        (Image.new("RGBA", (4, 3), (0, 0, 0, 0)), {}, 255),
        (Image.new("RGBA", (4, 3), (0, 0, 0, 255)), {}, 0),
        (Image.new("RGBA", (4, 3), (0, 0, 0, 51)), {}, 204),
        (Image.new("LA", (4, 3), (0, 0)), {}, 255),
        (Image.new("RGB", (4, 3), (1, 2, 3)), {"transparency": (1, 2, 3)}, 255),
        (Image.new("P", (4, 3), 0), {"transparency": 0}, 255),
        (Image.new("1", (4, 3), 1), {}, 255),
        (Image.new("I;16", (4, 3), 0x1234), {}, 0x12),
        (Image.new("I;16", (4, 3), 0xFFFF), {}, 0xFF),
        (Image.new("L", (4, 3), 77), {}, 77),
    ],
)
@pytest.mark.parametrize("mode", ["rgb", "grey"])
def test_modes_and_transparency_over_white(
    picture: Image.Image, options: dict[str, Any], expected: int, mode: str
) -> None:
    assert set(read(encoded(picture, "PNG", **options), target(mode=mode))) == {expected}


@pytest.mark.parametrize(
    ("mode", "background", "expected"),
    [("rgb", (0,), b"\0\0\0"), ("rgb", (255, 10, 20), b"\xff\x0a\x14"), ("grey", (99,), b"\x63")],
)
@pytest.mark.parametrize("form", ["PNG", "WEBP", "GIF"])
def test_the_background_is_what_the_spec_says(
    mode: str, background: tuple[int, ...], expected: bytes, form: str
) -> None:
    options = {"lossless": True} if form == "WEBP" else {}
    value = encoded(Image.new("RGBA", (4, 3), (0, 0, 0, 0)), form, **options)
    assert read(value, target(1, 1, mode, background=background)) == expected


def test_a_palette_with_several_transparent_colours() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 40, 50, 60])
    picture.putdata([0, 1])
    value = encoded(picture, "PNG", transparency=b"\x00\xff")
    assert read(value, target(2, 1)) == b"\xff\xff\xff" + bytes([40, 50, 60])


def test_sixteen_bits_in_colour() -> None:
    """Pillow writes none; a PNG by hand, whose two pixels differ in their lower bytes only."""
    rows = b"\0" + bytes([0x12, 0xFF, 0x34, 0x00, 0x56, 0x80]) + bytes([0x12, 0x00, 0x34, 0xFF, 0x56, 0x7F])
    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    assert read(text(data), target(2, 1)) == bytes([0x12, 0x34, 0x56] * 2)


def test_cmyk_is_converted() -> None:
    red, green, blue = read(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"), target(1, 1))
    assert red > 240
    assert green < 15
    assert blue < 15


def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (4, 3), color) for color in (RED, GREEN)]
    for form, options in (("GIF", {}), ("WEBP", {"lossless": True})):
        value = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
        assert read(value, target()) == frames[0].tobytes()


def test_cover_keeps_the_middle() -> None:
    picture = Image.frombytes("L", (4, 2), bytes([1, 2, 3, 4, 5, 6, 7, 8]))
    assert read(encoded(picture, "PNG"), target(2, 2, "grey", "cover")) == bytes([2, 3, 6, 7])


@pytest.mark.parametrize(
    ("mode", "padding", "expected"),
    [("rgb", (7,), bytes([7] * 3)), ("rgb", (1, 2, 3), bytes([1, 2, 3])), ("grey", (9,), b"\x09")],
)
def test_the_padding_is_what_the_spec_says(mode: str, padding: tuple[int, ...], expected: bytes) -> None:
    raw = read(encoded(Image.new("L", (4, 2), 255), "PNG"), target(4, 4, mode, "contain", padding=padding))
    assert raw == expected * 4 + b"\xff" * len(expected) * 8 + expected * 4


def test_contain_pads_with_black() -> None:
    picture = Image.new("L", (4, 2), 9)
    assert read(encoded(picture, "PNG"), target(4, 4, "grey", "contain")) == bytes(4) + b"\x09" * 8 + bytes(4)


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40),
    st.sampled_from(FITS), st.sampled_from([1.0, 0.875, 0.3]),
    st.sampled_from(["nearest", "bilinear", "bicubic", "area", "lanczos"]), st.booleans(),
    st.sampled_from(["BMP", "JPEG"]),
)  # fmt: skip
@settings(deadline=None)
def test_any_size_fits_any_target(
    w: int, h: int, to_w: int, to_h: int, fit: str, crop: float, resize: str, antialias: bool, form: str
) -> None:
    to = target(to_w, to_h, "rgb", fit, resize, antialias=antialias, crop=crop)
    raw = read(encoded(Image.new("RGB", (w, h), "white"), form), to)
    assert len(raw) == to.size
    assert fit == "contain" or set(raw) == {255}


@pytest.mark.parametrize(
    ("resize", "grid", "expected"),
    [
        ("bilinear", "half_pixel", [10, 15, 25, 30]),
        ("bilinear", "asymmetric", [10, 20, 30, 30]),
        ("bilinear", "align_corners", [10, 17, 23, 30]),
        ("nearest", "half_pixel", [10, 10, 30, 30]),
        ("nearest", "asymmetric", [10, 10, 30, 30]),
        ("nearest", "align_corners", [10, 10, 30, 30]),
    ],
)
def test_where_the_pixels_of_another_size_lie(resize: str, grid: str, expected: list[int]) -> None:
    line = Image.fromarray(np.array([[10, 30]], np.uint8))
    to = target(4, 1, "grey", "stretch", resize, antialias=False, grid=grid)
    assert list(read(encoded(line, "PNG"), to)) == expected


@pytest.mark.parametrize("resize", ["nearest", "area"])
def test_pixels_that_are_repeated_stay_as_they_are(resize: str) -> None:
    values = np.arange(1, 13, dtype=np.uint8).reshape(3, 4)
    raw = read(encoded(Image.fromarray(values), "PNG"), target(8, 9, "grey", "stretch", resize))
    np.testing.assert_array_equal(np.frombuffer(raw, np.uint8).reshape(9, 8), values.repeat(3, 0).repeat(2, 1))


@pytest.mark.parametrize("prefix", ["data:image/png;base64,", "data:;base64,", "DATA:image/png;name=a;BASE64,"])
def test_data_urls(prefix: str) -> None:
    picture = Image.new("RGB", (4, 3), RED)
    assert read(prefix + encoded(picture, "PNG"), target()) == picture.tobytes()


def test_wrapped_base64() -> None:
    picture = Image.new("RGB", (4, 3), RED)
    wrapped = base64.encodebytes(base64.b64decode(encoded(picture, "PNG"))).decode().replace("\n", "\r\n")
    assert read(wrapped, target()) == picture.tobytes()


@pytest.mark.parametrize(
    "value",
    ["@@", "abc", "é", "https://example.org/a.jpg", "data:image/png,abcd", "data:image/png;base64", "a\0b="],
)
def test_what_is_not_base64(value: str) -> None:
    with pytest.raises(errors.NotBase64Error, match=r'^"image" is'):
        read(value, target())


@pytest.mark.parametrize("value", ["", "  ", "data:image/png;base64,"])
def test_an_empty_text(value: str) -> None:
    with pytest.raises(errors.WrongFieldError, match="empty"):
        read(value, target())


@pytest.mark.parametrize("value", [None, 1, 2.5, True, []])
def test_what_is_not_text(value: object) -> None:
    with pytest.raises(errors.WrongTypeError, match="must be a string"):
        read(value, target())


@pytest.mark.parametrize(
    "data", [b"hello", b"%PDF-1.7", b"II*\0" + bytes(40), b"RIFF\0\0\0\0WAVE", bytes(64), b"<svg></svg>"]
)
def test_what_is_no_image_we_take(data: bytes) -> None:
    with pytest.raises(errors.NotAnImageError, match="JPEG, PNG, WebP, GIF or BMP"):
        read(text(data), target())


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_truncated_files(form: str) -> None:
    data = base64.b64decode(encoded(Image.effect_noise((64, 64), 90).convert("RGB"), form))
    with pytest.raises(errors.TruncatedImageError, match="ends too early"):
        read(text(data[: len(data) // 2]), target())


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_every_cut_is_a_typed_error_or_an_image(form: str) -> None:
    data = base64.b64decode(encoded(Image.effect_noise((16, 16), 90).convert("RGB"), form))
    codes = {outcome(data[:end], LIMITS) for end in range(1, len(data), 7)}
    assert codes <= {"read", "truncated_image", "damaged_image", "not_an_image", "too_many_pixels"}


def outcome(data: bytes, limits: RequestLimits) -> str:
    """ "read", or the code of the typed error; anything else passes through and fails the test."""
    try:
        raw = read(text(data), target(), limits)
    except errors.HandlerError as error:
        return error.code
    return "read" if len(raw) == target().size else "short"


@given(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "BMP"]), st.data())
@settings(deadline=None, max_examples=150)
def test_damage_never_escapes(form: str, data: st.DataObject) -> None:
    original = bytearray(base64.b64decode(encoded(Image.linear_gradient("L").resize((16, 16)), form)))
    for _ in range(data.draw(st.integers(1, 4))):
        original[data.draw(st.integers(0, len(original) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(original), RequestLimits(pixels=1_000_000)) != "short"


def test_too_many_bytes() -> None:
    with pytest.raises(errors.TooLargeError, match="at most 100"):
        read(text(bytes(101)), target(), RequestLimits(encoded=100))
    with pytest.raises(errors.TooLargeError, match="larger than 100"):
        read("A" * 1000, target(), RequestLimits(encoded=100))


@pytest.mark.parametrize(
    ("form", "options"),
    [("PNG", {}), ("BMP", {}), ("GIF", {}), ("JPEG", {}), ("WEBP", {}), ("WEBP", {"lossless": True})],
)
def test_too_many_pixels(form: str, options: dict[str, Any]) -> None:
    value = encoded(Image.new("RGB", (40, 30)), form, **options)
    with pytest.raises(errors.TooManyPixelsError, match="40 × 30"):
        read(value, target(), RequestLimits(pixels=1199))
    assert read(value, target(), RequestLimits(pixels=1200)) == bytes(36)


def test_little_memory_takes_smaller_images() -> None:
    assert RequestLimits.for_memory(128).pixels == 3_200_000
    assert RequestLimits.for_memory(1769).pixels == 44_225_000
    assert RequestLimits.for_memory(10_240) == RequestLimits()


def test_formats_may_be_left_out() -> None:
    picture = Image.new("RGB", (4, 3), RED)
    limits = RequestLimits.for_memory(1769, "jpeg, PNG")
    assert read(encoded(picture, "PNG"), target(), limits) == picture.tobytes()
    with pytest.raises(errors.NotAnImageError, match="send JPEG or PNG"):
        read(encoded(picture, "GIF"), target(), limits)
    with pytest.raises(errors.StartupError, match="TIFF, which is not one of JPEG"):
        RequestLimits.for_memory(1769, "TIFF")


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_more_frames_are_not_looked_at(form: str) -> None:
    """The second frame is damaged, which only who reads it would notice."""
    first, second = Image.new("L", (16, 16), 80), Image.effect_noise((16, 16), 90)
    options = {"lossless": True} if form == "WEBP" else {}
    data = base64.b64decode(
        encoded(first.convert("RGB"), form, save_all=True, append_images=[second.convert("RGB")], **options)
    )
    damaged = data[:-60] + bytes(40) + data[-20:]
    assert damaged != data
    assert set(read(text(damaged), target())) == {80}


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_a_decompression_bomb_is_not_unpacked() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    with pytest.raises(errors.TooManyPixelsError, match="60000 × 60000"):
        read(text(bomb), target())


def test_a_webp_canvas_is_checked_before_libwebp_sees_it() -> None:
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + (16382).to_bytes(3, "little") * 2 + bytes(20)
    with pytest.raises(errors.TooManyPixelsError, match="16383 × 16383"):
        read(text(b"RIFF" + struct.pack("<I", len(body)) + body), target())
