"""Detections: boxes back in the picture that was sent, whatever ``fit`` made of it; scores, classes and counts."""

from __future__ import annotations

import base64
import io
import json
import math
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from PIL import Image, ImageDraw

from handler.answer import compute_min_predictions_length, make_predictions
from handler.answers.detection import convert_box
from handler.budget import RequestLimits
from handler.crop import Frame, place_image
from handler.description import Description, Detection, ImageInput, parse_description
from handler.errors import StartupError
from handler.image import read_image
from handler.options import AnswerOptions, apply_options
from tests.support import abi_library
from tests.support.http import Client

SIDES = st.integers(1, 3_000)
FITS = ("stretch", "cover", "contain", "square", "short", "short_rounded", "short_exact", "stretch_exact")
FORMATS = ("xyxy", "yxyx", "xywh", "cxcywh")
DETECTION = {
    "scores": "scores", "classes": "", "counts": "", "box_format": "xyxy", "box_units": "pixels", "threshold": 0.5,
}  # fmt: skip


def described(
    rows: int, *shapes: tuple[str, str, list[int]], batch: int = 1, side: int = 100, **said: Any
) -> Description:
    """``shapes``: name, dtype and shape of the fetches besides the boxes."""
    image = {"feed": "x", "width": side, "height": side, "mode": "rgb", "fit": "stretch", "resize": "bilinear"}
    fetches = [abi_library._port("boxes", "float32", batch, rows, 4)]
    fetches += [abi_library._port(name, dtype, *shape) for name, dtype, shape in shapes]
    own = {key: said.pop(key) for key in list(said) if key in ("labels", "top_k")}
    output = {"name": "objects", "fetch": "boxes", "kind": "detection", "labels": [], "top_k": None}
    feeds = [abi_library._port("x", "uint8", batch, side, side, 3)]
    outputs = [output | DETECTION | said | own]
    return parse_description(
        json.dumps(abi_library._describe("m", batch, feeds, fetches, image=image, outputs=outputs))
    )


def floats(*values: float) -> memoryview:
    return memoryview(array("f", values))


def found(description: Description, *fetches: memoryview, size: tuple[int, int] | None = None) -> Any:
    (answer,) = make_predictions(description, list(fetches), 1, [size] if size else ())
    return answer["objects"]


def written(box: tuple[float, ...], form: str) -> tuple[float, ...]:
    left, top, right, bottom = box
    return {
        "xyxy": box,
        "yxyx": (top, left, bottom, right),
        "xywh": (left, top, right - left, bottom - top),
        "cxcywh": ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top),
    }[form]


@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES), st.sampled_from(FITS), st.sampled_from(FORMATS), st.data())
def test_a_box_comes_back_to_where_it_was(
    size: tuple[int, int], model: tuple[int, int], fit: str, form: str, data: st.DataObject
) -> None:
    """A part of what the model is shown, carried forward as a picture is resized, and back."""
    width, height = model
    target = ImageInput("x", width, height, "rgb", fit, "bilinear")
    placed = place_image(size, target)
    left, top, right, bottom = placed.box
    xs, ys = (sorted(data.draw(st.tuples(st.floats(a, b), st.floats(a, b)))) for a, b in ((left, right), (top, bottom)))
    box = (xs[0], ys[0], xs[1], ys[1])
    scale = placed.size[0] / (right - left), placed.size[1] / (bottom - top)
    shown = tuple((edge - (left, top)[i % 2]) * scale[i % 2] + placed.offset[i % 2] for i, edge in enumerate(box))
    for units in ("pixels", "relative"):
        given_box = tuple(edge / model[i % 2] for i, edge in enumerate(shown)) if units == "relative" else shown
        detection = Detection("scores", "", "", form, units, 0.5)
        back = convert_box(written(given_box, form), detection, Frame(size, model, placed))
        np.testing.assert_allclose(back, box, atol=1e-6 * max(*size, *model))


@given(st.tuples(*[st.floats()] * 4), st.tuples(SIDES, SIDES), st.sampled_from(FITS), st.sampled_from(FORMATS))
def test_whatever_a_model_gives_is_within_the_image_or_nothing(
    box: tuple[float, ...], size: tuple[int, int], fit: str, form: str
) -> None:
    placed = place_image(size, ImageInput("x", 50, 40, "rgb", fit, "bilinear"))
    for units in ("pixels", "relative"):
        back = convert_box(box, Detection("scores", "", "", form, units, 0.5), Frame(size, (50, 40), placed))
        for edge, most in zip(back, size * 2, strict=True):
            assert math.isnan(edge) or 0 <= edge <= most


ORIENTED = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("size", [(301, 140), (140, 301), (97, 97), (1_700, 900)])
@pytest.mark.parametrize(("turn", "crop"), [*((turn, 1.0) for turn in ORIENTED), (1, 0.875), (6, 0.6), (8, 0.6)])
def test_what_the_model_sees_is_where_the_answer_says(fit: str, size: tuple[int, int], turn: int, crop: float) -> None:
    """A red rectangle in a picture as people see it, found in the pixels that the model gets, and carried back."""
    width, height = size
    box = (width * 0.4, height * 0.45, width * 0.55, height * 0.6)
    picture = Image.new("RGB", size, "white")
    ImageDraw.Draw(picture).rectangle((*map(round, box[:2]), round(box[2]) - 1, round(box[3]) - 1), fill="red")
    how = ORIENTED[turn]
    buffer, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = turn
    (picture.transpose(how) if how is not None else picture).save(buffer, "JPEG", quality=95, exif=exif.tobytes())
    target = ImageInput("x", 120, 80, "rgb", fit, "bilinear", padding=(255,), crop=crop)
    got = read_image(buffer.getvalue(), "it", target, RequestLimits())
    assert got.size == size
    red = np.frombuffer(got.data, np.uint8).reshape(80, 120, 3)[:, :, 1] < 128
    rows, columns = np.nonzero(red.any(1))[0], np.nonzero(red.any(0))[0]
    seen = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
    back = convert_box(
        seen, Detection("", "", "", "xyxy", "pixels", 0), Frame(size, (120, 80), place_image(size, target))
    )
    pixel = max(width / 120, height / 80)  # of the model's picture
    np.testing.assert_allclose(back, [round(edge) for edge in box], atol=pixel + 1)


BOXES = floats(0, 0, 10, 10, 20, 20, 50, 60, 40, 0, 30, 10, 90, 90, 120, 130)


def test_the_best_come_first_and_labels_are_theirs() -> None:
    description = described(
        4, ("scores", "float32", [1, 4]), ("kinds", "int64", [1, 4]), classes="kinds", labels=["cat", "dog"]
    )
    answer = found(description, BOXES, floats(0.5, 0.75, 0.9, 0.6), memoryview(array("q", [1, 0, 0, 7])))
    assert answer == [
        {"label": "cat", "score": 0.75, "box": [20, 20, 50, 60]},
        {"label": "7", "score": float(format(array("f", [0.6])[0], ".9g")), "box": [90, 90, 100, 100]},
        {"label": "dog", "score": 0.5, "box": [0, 0, 10, 10]},
    ]
    twice = found(description, BOXES, floats(0.5, 0.75, 0.9, 0.6), memoryview(array("q", [1, 0, 0, 7])), size=(200, 50))
    assert [one["box"] for one in twice] == [[40, 10, 100, 30], [180, 45, 200, 50], [0, 0, 20, 5]]


def test_top_k_and_threshold_are_the_models_or_the_requests() -> None:
    description = described(4, ("scores", "float32", [1, 4]), top_k=1)
    scores = floats(0.2, 0.75, 0.9, 0.6)
    assert [one["box"][0] for one in found(description, BOXES, scores)] == [20]
    asked = apply_options(description, AnswerOptions(top_k=3, threshold=0.1))
    assert [one["box"][0] for one in found(asked, BOXES, scores)] == [20, 90, 0]
    assert found(apply_options(description, AnswerOptions(threshold=1.0)), BOXES, scores) == []


def test_a_score_for_each_class() -> None:
    description = described(4, ("scores", "float32", [1, 4, 3]), labels=["a", "b", "c"])
    scores = floats(0.1, 0.6, 0.2, 0.1, 0.2, 0.3, 0.9, 0.9, 0.9, 0.7, 0.1, 0.8)
    assert [(one["label"], one["box"][0]) for one in found(description, BOXES, scores)] == [("c", 90), ("b", 0)]


@pytest.mark.parametrize(
    ("count", "boxes"), [(2, 2), (0, 0), (-1, 0), (9, 3), (math.nan, 0), (math.inf, 0)]
)  # of four, one has no area
def test_a_count(count: float, boxes: int) -> None:
    description = described(4, ("scores", "float32", [1, 4]), ("n", "float32", [1]), counts="n")
    assert len(found(description, BOXES, floats(1, 1, 1, 1), floats(count))) == boxes


def test_what_is_undefined_is_no_object() -> None:
    description = described(4, ("scores", "float32", [1, 4]), ("kinds", "float32", [1, 4]), classes="kinds")
    boxes = floats(math.nan, 0, 9, 9, 0, 0, math.inf, 9, 0, 0, 9, 9, 0, 0, 9, 9)
    kinds = floats(0, 0, math.nan, 0)
    assert [one["label"] for one in found(description, boxes, floats(1, 1, 1, math.nan), kinds)] == ["0"]


def test_items_of_a_batch_have_images_of_their_own() -> None:
    description = described(1, ("scores", "float32", [2, 1]), batch=2)
    boxes, scores = floats(10, 20, 30, 40, 50, 60, 70, 80), floats(1, 1)
    answers = make_predictions(description, [boxes, scores], 2, [(100, 100), (50, 200)])
    assert [one["objects"][0]["box"] for one in answers] == [[10, 20, 30, 40], [25, 120, 35, 160]]
    assert (
        0
        < compute_min_predictions_length(description, 2)
        <= len(json.dumps(make_predictions(description, [boxes, scores], 2)))
    )


def test_a_description_that_does_not_fit_is_refused() -> None:
    for wrong in ({"scores": "none"}, {"classes": "none"}, {"counts": "none"}):
        with pytest.raises(StartupError, match="which the model does not have"):
            described(4, ("scores", "float32", [1, 4]), **wrong)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The pixels of a picture as what they are not: brightness as scores of two boxes, all of it twice."""
    description = abi_library.picture_description(width=2, height=4)
    description["fetches"][2] |= {"name": "pixels", "shape": [1, 2, 4]}
    detection = {"kind": "detection", "labels": [], "top_k": None, **DETECTION, "scores": "light", "box_format": "xywh"}
    description["outputs"] = [{"name": "objects", "fetch": "pixels", **detection}]
    return Client.of(tmp_path_factory.mktemp("detection"), description)


def picture(values: list[int], scale: int) -> str:
    small = Image.frombytes("L", (2, 4), bytes(values))
    buffer = io.BytesIO()
    small.resize((2 * scale, 4 * scale), Image.Resampling.NEAREST).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def test_a_request_knows_its_images(client: Client) -> None:
    values = [0, 1, 1, 2, 0, 0, 1, 1]
    body = {"images": [picture(values, 1), picture(values, 10)], "threshold": -1e9}
    status, answer = client.post("/predict", body)
    assert status == 200
    one, other = ([[*o["box"]] for o in item["objects"]] for item in answer["predictions"])
    assert sorted(one) == [[0, 0, 1, 1], [0, 1, 1, 3]]
    assert sorted(other) == [[0, 0, 10, 10], [0, 10, 10, 30]]
    tensors = {"inputs": {"image": [np.reshape(values, (4, 2, 1)).tolist()]}, "threshold": -1e9}
    assert client.post("/predict", tensors)[1]["predictions"][0]["objects"] == answer["predictions"][0]["objects"]
    document = client.get("/openapi.json")
    schema = document["paths"]["/predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator(schema | {"components": document["components"]}).validate(answer)


@pytest.mark.parametrize("wrong", ["", "much", "nan", "1e999", True, None, [1]])
def test_a_threshold_that_is_no_number(client: Client, wrong: Any) -> None:
    status, answer = client.post("/predict", {"image": picture([0] * 8, 1), "threshold": wrong})
    assert (status, answer["error"]["code"]) == (400, "wrong_field")


def test_the_query_takes_one_too(client: Client, tmp_path: Path) -> None:
    body = {"image": picture([0, 1, 1, 2, 0, 0, 1, 1], 1), "threshold": 1e9}
    assert client.post("/predict", body)[1]["predictions"] == [{"objects": []}]
    assert len(client.post("/predict", body, threshold="-1e9")[1]["predictions"][0]["objects"]) == 2
