"""Segmentations: class maps back in the picture that was sent, whatever ``fit`` did, as PNG and in run lengths."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from handler.answer import compute_min_predictions_length, make_predictions
from handler.answers import segmentation
from handler.answers.segmentation import UNSEEN, restore_class_map, run_lengths
from handler.budget import RequestLimits
from handler.crop import Frame, place_image
from handler.description import Description, ImageInput, parse_description
from handler.errors import AnswerTooLargeError
from handler.image import read_image
from handler.options import AnswerOptions, apply_options
from tests.support import abi_library

SIDES = st.integers(1, 60)
FITS = ("stretch", "cover", "contain", "square", "short", "short_rounded", "short_exact", "stretch_exact")


def described(
    width: int, height: int, fit: str = "stretch", side: int = 8, labels: tuple[str, ...] = ()
) -> Description:
    image = {"feed": "x", "width": side, "height": side, "mode": "rgb", "fit": fit, "resize": "bilinear"}
    output = {"name": "parts", "fetch": "y", "kind": "segmentation", "labels": labels, "top_k": None, "format": "png"}
    feeds, fetches = (
        [abi_library._port("x", "uint8", 1, side, side, 3)],
        [abi_library._port("y", "uint8", 1, height, width)],
    )
    return parse_description(json.dumps(abi_library._describe("m", 1, feeds, fetches, image=image, outputs=[output])))


def told(description: Description, data: bytes, size: tuple[int, int] | None = None) -> Any:
    (answer,) = make_predictions(description, [memoryview(data)], 1, [size] if size else ())
    return answer["parts"]


def pixels(png: str) -> Any:
    return np.array(Image.open(io.BytesIO(base64.b64decode(png))))


@given(
    st.tuples(SIDES, SIDES),
    st.tuples(SIDES, SIDES),
    st.sampled_from(FITS),
    st.sampled_from([1.0, 0.875, 0.5, 0.1]),
    st.integers(1, 3),
)
def test_each_pixel_has_the_class_of_where_the_model_was_shown_it(
    size: tuple[int, int], model: tuple[int, int], fit: str, crop: float, finer: int
) -> None:
    """The map's rows and columns are numbered, so that a class says where it was taken from."""
    target = ImageInput("x", *model, "rgb", fit, "bilinear", crop=crop)
    placed = place_image(size, target)
    width, height = model[0] * finer, model[1] * finer
    for axis in (0, 1):
        steps = np.arange((width, height)[axis]).astype(np.uint8)
        data = np.tile(steps, (height, 1)) if axis == 0 else np.tile(steps[:, None], (1, width))
        found = np.array(restore_class_map(data.tobytes(), (width, height), Frame(size, model, placed)))
        assert found.shape == (size[1], size[0])
        unseen, line = (found == UNSEEN).all(axis), found.min(axis)
        begin, end = placed.box[axis], placed.box[axis + 2]
        middles = np.arange(size[axis]) + 0.5
        shown = (middles - begin) * placed.size[axis] / (end - begin) + placed.offset[axis]
        first, last = max(0, placed.offset[axis]), min(model[axis], placed.offset[axis] + placed.size[axis])
        inside = (shown > first + 1e-6) & (shown < last - 1e-6)
        if not inside.any():  # what is shown lies between two middles
            continue
        outside = (shown < first - 1e-6) | (shown > last + 1e-6)
        assert unseen[outside].all()
        assert not unseen[inside].any()
        assert np.abs(line - np.floor(shown * finer))[inside].max() <= 1  # where two are as near


def test_the_answer_has_classes_with_their_shares() -> None:
    description = described(2, 2, labels=("sky", "sea"))
    answer = told(description, bytes([0, 1, 1, 1]), (4, 6))
    assert (answer["width"], answer["height"]) == (4, 6)
    assert answer["classes"] == [
        {"class": 1, "label": "sea", "share": 0.75},
        {"class": 0, "label": "sky", "share": 0.25},
    ]
    assert pixels(answer["png"]).tolist() == [[0, 0, 1, 1]] * 3 + [[1] * 4] * 3
    assert told(description, bytes(4))["width"] == 8  # of a tensor, the model's own picture
    assert 0 < compute_min_predictions_length(description, 1) <= len(json.dumps([{"parts": answer}]))


def test_what_cover_cuts_off_was_not_seen() -> None:
    answer = told(described(2, 2, "cover", labels=("a", "b")), bytes(4), (10, 4))
    assert [(one["class"], one["label"], one["share"]) for one in answer["classes"]] == [(255, "", 0.6), (0, "a", 0.4)]


@pytest.mark.parametrize("size", [(301, 140), (140, 301)])
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("crop", [1.0, 0.875, 0.6])
def test_a_map_lies_where_the_model_saw_it(fit: str, crop: float, size: tuple[int, int]) -> None:
    """A red rectangle in a picture; the model says 1 where its own pixels are red."""
    width, height = size
    box = round(width * 0.4), round(height * 0.45), round(width * 0.55), round(height * 0.6)
    picture, file = Image.new("RGB", size, "white"), io.BytesIO()
    picture.paste("red", box)
    picture.save(file, "PNG")
    target = ImageInput("x", 120, 80, "rgb", fit, "bilinear", padding=(255,), crop=crop)
    got = read_image(file.getvalue(), "it", target, RequestLimits())
    red = (np.frombuffer(got.data, np.uint8).reshape(80, 120, 3)[:, :, 1] < 128).astype(np.uint8)
    back = np.array(restore_class_map(red.tobytes(), (120, 80), Frame(got.size, (120, 80), place_image(size, target))))
    rows, columns = (np.nonzero((back == 1).any(axis))[0] for axis in (1, 0))
    pixel = max(width / 120, height / 80)  # of the model's picture
    found = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    np.testing.assert_allclose(found, box, atol=pixel + 1)
    shows_all = fit in ("stretch", "stretch_exact", "contain") and crop == 1
    assert (back == UNSEEN).any() == (not shows_all)


@given(st.tuples(SIDES, SIDES), st.integers(1, 5), st.randoms(use_true_random=False))
def test_run_lengths_are_cocos(size: tuple[int, int], classes: int, random: Any) -> None:
    data = np.array([random.randrange(classes) for _ in range(size[0] * size[1])], np.uint8).reshape(size[1], size[0])
    found = run_lengths(Image.fromarray(data))
    assert set(found) == set(np.unique(data).tolist())
    for number, counts in found.items():
        assert sum(counts) == data.size
        bits = np.repeat(np.arange(len(counts)) % 2, counts)  # COCO: column by column, zeros first
        np.testing.assert_array_equal(bits.reshape(size[0], size[1]).T, data == number)


def test_a_request_may_ask_for_run_lengths() -> None:
    answer = told(apply_options(described(2, 1), AnswerOptions(format="rle")), bytes([0, 7]))
    assert "png" not in answer
    assert [one["rle"] for one in answer["classes"]] == [
        {"size": [8, 8], "counts": [32, 32]},
        {"size": [8, 8], "counts": [0, 32, 32]},
    ]


def test_more_runs_than_an_answer_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "_MOST_RUNS", 50)
    noise = np.indices((8, 8)).sum(axis=0) % 2
    with pytest.raises(AnswerTooLargeError, match="PNG"):
        run_lengths(Image.fromarray(noise.astype(np.uint8)))


def test_colours_are_pascals() -> None:
    found = Image.open(io.BytesIO(base64.b64decode(told(described(1, 1), bytes([15]))["png"])))
    assert found.convert("RGB").getpixel((0, 0)) == (192, 128, 128)
