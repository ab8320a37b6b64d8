"""Objects and classes of pixels in the picture that was sent: for every ``fit``, turned and not, by every way that
pictures come.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from handler.answers.segmentation import UNSEEN
from handler.budget import RequestLimits
from tests.support import abi_library
from tests.support.everywhere import Answers, There, encoded, function, predictions

FITS = ("stretch", "cover", "contain", "square", "short", "short_rounded", "short_exact", "stretch_exact")
CROP = 0.8
SIZES = ((301, 140), (140, 301))
TURNS = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
"""EXIF's orientations, and how a picture is stored that is upright with them."""


@pytest.fixture(scope="module", params=FITS)
def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    """A function that finds what is dark, in a part of the picture."""
    description = abi_library.finder_description(fit=request.param, crop=CROP)
    with function(abi_library.build(tmp_path_factory.mktemp("finder"), description), RequestLimits()) as started:
        yield started


def picture(size: tuple[int, int], turn: int) -> tuple[bytes, list[int]]:
    """A JPEG of ``size`` as people see it, with one dark rectangle; and the rectangle."""
    width, height = size
    box = [round(width * 0.4), round(height * 0.45), round(width * 0.55), round(height * 0.6)]
    made, how = Image.new("L", size, "white"), TURNS[turn]
    ImageDraw.Draw(made).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill="black")
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = turn
    (made if how is None else made.transpose(how)).save(file, "JPEG", quality=95, exif=exif.tobytes())
    return file.getvalue(), box


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def form(files: list[bytes]) -> bytes:
    parts = (b'--it\r\ncontent-disposition: form-data; name="f"; filename="f.jpg"\r\n\r\n%b\r\n' % one for one in files)
    return b"".join(parts) + b"--it--\r\n"


def body(there: There, data: bytes, media: str = "image/jpeg", **query: str) -> Answers:
    return predictions(there.http("/predict", data, {"content-type": media}, **query))


def batch(there: There, files: list[bytes]) -> Answers:
    there.bucket.objects = {f"pictures/{number}.jpg": file for number, file in enumerate(files)}
    items = [{"Row": number, "Bucket": "pictures", "Key": f"{number}.jpg"} for number in range(len(files))]
    there.event({"Batch": 0, "Items": items, "BatchInput": {"Results": "s3://answers/parts/", "Together": 2}})
    _, *lines = there.bucket.objects["answers/parts/00000000.jsonl"].splitlines()
    return [item for line in lines for item in predictions(line)]


WAYS: dict[str, Callable[[There, list[bytes]], Answers]] = {
    "direct": lambda there, files: predictions(there.event({"images": [b64(file) for file in files]})),
    "JSON": lambda there, files: body(there, encoded({"images": [b64(file) for file in files]}), "application/json"),
    "form": lambda there, files: body(there, form(files), "multipart/form-data; boundary=it"),
    "file": lambda there, files: [item for file in files for item in body(there, file)],
    "S3": lambda there, files: [item for file in files for item in there.stored("it.jpg", file)],
    "batch": batch,
}


def class_map(parts: dict[str, Any]) -> Any:
    """Of a PNG, or of run lengths: column by column, zeros first."""
    if "png" in parts:
        return np.array(Image.open(io.BytesIO(base64.b64decode(parts["png"]))))
    found = np.full((parts["height"], parts["width"]), 254, np.uint8)
    for one in parts["classes"]:
        counts = one["rle"]["counts"]
        bits = np.repeat(np.arange(len(counts)) % 2, counts).reshape(found.shape[::-1]).T
        found[bits == 1] = one["class"]
    return found


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("size", SIZES)
def test_places_are_in_the_image_that_was_sent(there: There, size: tuple[int, int], turn: int) -> None:
    file, box = picture(size, turn)
    (found,) = body(there, file)
    pixel = max(size[0] / 120, size[1] / 80)  # of the model's picture
    (one,) = found["objects"]
    assert (one["label"], one["score"]) == ("it", 1)
    np.testing.assert_allclose(one["box"], box, atol=pixel + 1)
    parts = class_map(found["parts"])
    assert parts.shape == size[::-1]
    rows, columns = (np.nonzero((parts == 1).any(axis))[0] for axis in (1, 0))
    np.testing.assert_allclose([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], box, atol=pixel + 1)
    assert (parts == UNSEEN).any()
    (in_runs,) = body(there, file, format="rle")
    assert in_runs["objects"] == found["objects"]
    np.testing.assert_array_equal(class_map(in_runs["parts"]), parts)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same(there: There, way: str) -> None:
    """Of pictures of three sizes, so that each is in its own."""
    files = [picture(size, turn)[0] for size, turn in ((SIZES[0], 6), (SIZES[1], 1), ((97, 97), 3))]
    one_by_one = [body(there, encoded({"image": b64(file)}), "application/json")[0] for file in files]
    assert WAYS[way](there, files) == one_by_one
    assert len({one["parts"]["width"] for one in one_by_one}) == 3
