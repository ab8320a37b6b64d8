"""The fuzzers' oracle: what costs more than its budget is flagged, and each costly request of the issue is in reach."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import pytest
from PIL import Image, ImageOps

from handler import protocols
from handler.budget import FileCost, RequestLimits
from handler.description import ImageInput
from handler.errors import HandlerError
from handler.http import HttpRequest
from handler.image import read_pixels
from handler.resize import resize_image
from handler.server import Server
from tests.conftest import ROOT
from tests.fuzz import recipes
from tests.fuzz.oracle import AskedLimits, OverspentError, Spent, held
from tests.fuzz.targets import CORPUS, call, costly_server
from tests.support import hostile_images as hostile

pytestmark = pytest.mark.xdist_group("fuzz")

LITTLE = Spent(0.2, 32 << 20)  # each of these takes twice that, on the fastest machine of the tests so far
LITTLE_MEMORY = Spent(60, 12 << 20)
MB = 1 << 20


class Unbudgeted(AskedLimits):
    """Limits that let everything pass, as there were none."""

    def require_cost(self, cost: FileCost, seconds: float) -> None:
        pass

    def require_memory(self, bytes_needed: int) -> None:
        pass


def decoded_as_before(file: bytes, method: str = "bilinear") -> None:
    """As Pillow does it, without a look at the file first."""
    with Image.open(io.BytesIO(file)) as picture:
        upright = ImageOps.exif_transpose(picture)
    resize_image(upright.convert("RGB"), (64, 64), method, True)


PICTURES: dict[str, Callable[[], None]] = {
    "a JPEG of many scans": lambda: decoded_as_before(hostile.jpeg((2_000, 2_000), 2_000)),
    "a BMP of runs, decoded in Python": lambda: decoded_as_before(hostile.bmp_in_runs((5_000_000, 1))),
    "a picture of one row": lambda: decoded_as_before(hostile.png((2_000_000, 1)), "lanczos"),
    "a JPEG of many comments": lambda: decoded_as_before(hostile.with_segments(hostile.segment(0xFE, b"") * 600_000)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_decoder_without_a_budget_is_flagged(name: str) -> None:
    with pytest.raises(OverspentError, match="the budget allows"):
        held(PICTURES[name], AskedLimits.of(RequestLimits.for_memory(1769)), 0, LITTLE)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v2/models/echo/infer",
            b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [12, 1, 1, 3], "data": [%s]}], '
            b'"outputs": [{"name": "y", "parameters": {"classification": 1}}]}' % b",".join([b"[[[1,2,3]]]"] * 12),
        ),
        # Some 300 MB: a process that ran other tests has memory to spare, which counts as none.
        ("/predict", b'{"inputs": {"x": [' + b",".join([b"[]"] * 4_000_000) + b"]}}"),
    ],
    ids=["pad", "lists"],
)
def test_a_body_without_a_budget_is_flagged(path: str, body: bytes) -> None:
    limits = Unbudgeted.of(RequestLimits.for_memory(1769))
    server = Server(costly_server().models, limits)
    request = HttpRequest("POST", path, {}, {}, body)
    with pytest.raises(OverspentError, match="the budget allows"):
        held(lambda: len(protocols.respond_to_request(request, server, call()).body), limits, len(body), LITTLE_MEMORY)


def test_what_the_budget_knows_of_is_not_flagged() -> None:
    limits = AskedLimits.of(RequestLimits.for_memory(1769))
    target = ImageInput("image", 224, 224, "rgb", "stretch", "area")
    held(lambda: len(read_pixels(hostile.png((3_000, 2_000)), "it", target, limits)), limits, 0, LITTLE)
    assert [round(cost.bytes / 1e6) >= 150 for cost in limits.asked] == [True]


def test_memory_that_was_given_back_counts() -> None:
    """Measure the peak of an input that has freed its memory, and nothing of it for the next input.

    In a process of its own: what other tests left is given back at any time, and lowers the peak by as much.
    """
    program = f"""
from tests.fuzz.oracle import measured
print(measured(lambda: len(b"x" * {200 * MB}))[0].bytes, measured(lambda: None)[0].bytes)
"""
    peak, next_peak = map(int, subprocess.check_output([sys.executable, "-c", program], cwd=ROOT).split())
    assert peak > 150 * MB
    assert next_peak < 8 * MB


MADE = {
    "jpeg_1000_scans": "over_budget",
    "jpeg_comments": "over_budget",
    "jpeg_exif": "read",
    "bmp_rle8": "unsupported_image",
    "png_44000000_lanczos": "too_many_pixels",
    "png_profiles": "read",
    "gif_comments": "over_budget",
    "photograph": "read",
}


@pytest.mark.parametrize("name", MADE)
def test_recipes_make_the_costly_images(name: str) -> None:
    file, target, memory = recipes.picture((CORPUS / "costly_image" / name).read_bytes())
    try:
        read_pixels(file, "it", target, RequestLimits.for_memory(memory))
        told = "read"
    except HandlerError as error:
        told = error.code
    assert told == MADE[name]


REFUSED = {
    "pad_4000_v1": b"MB of memory",
    "pad_4000_v2": b"MB of memory",
    "pad_binary": b"MB of memory",
    "elements": b"not as many elements",
    "answers_64": b"the answer has",
    "form": b"bytes of headers",
}


@pytest.mark.parametrize("name", REFUSED)
def test_recipes_make_the_costly_bodies(name: str) -> None:
    path, body, headers = recipes.request((CORPUS / "costly_body" / name).read_bytes())
    response = protocols.respond_to_request(HttpRequest("POST", path, {}, headers, body), costly_server(), call())
    assert REFUSED[name] in response.body
