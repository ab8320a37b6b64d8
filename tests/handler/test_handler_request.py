"""What a request may hold, how it becomes runs of the model, and how their results become answers."""

from __future__ import annotations

import base64
import io
import json
import struct
from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from handler import errors
from handler.answer import make_predictions
from handler.budget import RequestLimits
from handler.description import FORMATS, Description, Port, parse_description
from handler.inputs import RunContext, load_kinds
from handler.protocols.predict import parse_event as parse_request
from handler.request import Request, count_items, make_feeds, split_request
from handler.sources import NOWHERE
from handler.tensors import item_count, read_tensor
from tests.support import abi_library

LIMITS = RequestLimits(images=5)
TENSORS = parse_description(json.dumps(abi_library.tensor_description()))


def model(**options: Any) -> Description:
    return parse_description(json.dumps(abi_library.picture_description(width=1, height=1, **options)))


def dot(level: int) -> str:
    buffer = io.BytesIO()
    Image.new("L", (1, 1), level).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def filled(part: Request, description: Description) -> Request:
    model: Any = SimpleNamespace(description=description)
    for kind in load_kinds(description):
        part = kind.fill_inputs(part, RunContext(model, LIMITS, NOWHERE, lambda: 60_000))
    return part


def runs_of(event: object, description: Description) -> list[tuple[list[bytes], int]]:
    request = parse_request(event, description, LIMITS)
    return [
        (make_feeds(filled(part, description).inputs, description), count_items(part, description))
        for part in split_request(request, description)
    ]


def test_one_image_is_one_run() -> None:
    assert runs_of({"image": dot(7)}, model()) == [([b"\x07"], 1)]


def test_images_fill_batches_in_order_and_the_last_is_padded() -> None:
    images = [dot(v) for v in range(1, 6)]
    assert runs_of({"images": images}, model(batch=2)) == [([b"\1\2"], 2), ([b"\3\4"], 2), ([b"\5\0"], 1)]


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        (None, errors.WrongTypeError, "must be an object"),
        ([], errors.WrongTypeError, "must be an object"),
        ("text", errors.WrongTypeError, "must be an object"),
        ({}, errors.WrongFieldError, "empty"),
        ({"img": "x"}, errors.WrongFieldError, '"img" is not known here; send "image"'),
        ({"image": dot(1), "top": 3}, errors.WrongFieldError, '"top" is not known'),
        ({"image": dot(1), "images": []}, errors.WrongFieldError, "exclude each other"),
        ({"image": None}, errors.WrongTypeError, '"image" must be a string of base64, not null'),
        ({"images": dot(1)}, errors.WrongTypeError, "must be a list"),
        ({"images": []}, errors.WrongFieldError, "empty"),
        ({"images": [dot(1), "@"]}, errors.NotBase64Error, r'"images"\[1\] is not base64'),
        ({"images": [dot(1)] * 6}, errors.TooManyImagesError, "has 6; at most 5"),
        ({"image": dot(1), "inputs": {"image": [1]}}, errors.WrongFieldError, "needed: nothing"),
        ({"inputs": {}}, errors.WrongFieldError, '"image" is missing'),
        ({"a" * 500: 1}, errors.WrongFieldError, '^"a{40}" is not known'),
    ],
)
def test_wrong_requests(event: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_request(event, model(), LIMITS)


def test_a_model_of_images_also_takes_its_tensor() -> None:
    assert runs_of({"inputs": {"image": [[[[9]]]]}}, model()) == [([b"\x09"], 1)]


def test_a_model_without_images() -> None:
    event = {"inputs": {"n": [2, -1], "a": [[1, 2, 3], [4, 5, 6.5]]}}
    feeds = [struct.pack("6f", 1, 2, 3, 4, 5, 6.5), struct.pack("2q", 2, -1)]
    assert runs_of(event, TENSORS) == [(feeds, 2)]
    with pytest.raises(errors.WrongFieldError, match='takes no image; send "inputs"'):
        parse_request({"image": dot(1)}, TENSORS, LIMITS)


ECHO = parse_description(json.dumps(abi_library.echo_description(batch=2)))
"""Feeds [2, 2] of every dtype, and the same fetches: everything begins with the batch."""


def echoed(rows: int, form: str) -> dict[str, Any]:
    """A request of ``rows`` items for ECHO: all zeros but for in_uint8, whose numbers count up."""
    inputs: dict[str, Any] = {port.name: [[0, 0]] * rows for port in ECHO.feeds}
    numbers = [[2 * row, 2 * row + 1] for row in range(rows)]
    raw = {"b64": base64.b64encode(bytes(range(2 * rows))).decode()} if form == "raw" else None
    return {"inputs": inputs | {"in_uint8": raw or numbers}}


@pytest.mark.parametrize("form", ["nested", "raw"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_tensors_of_any_number_of_items(rows: int, form: str) -> None:
    """docs/batches.md has always promised it."""
    runs = runs_of(echoed(rows, form), ECHO)
    at = [port.name for port in ECHO.feeds].index("in_uint8")
    assert [count for _, count in runs] == [2] * (rows // 2) + [1] * (rows % 2)
    assert b"".join(data[at][: 2 * count] for data, count in runs) == bytes(range(2 * rows))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("in_uint8", [[0, 0]] * 3, errors.WrongShapeError, "the same number of items"),
        ("in_uint8", [], errors.WrongShapeError, "shape"),
        ("in_uint8", [0, 0, 0], errors.WrongShapeError, "shape"),
        ("in_uint8", [[0, 0], [0]], errors.WrongShapeError, "shape"),
        ("in_uint8", {"b64": "AAAA"}, errors.WrongShapeError, "bytes"),
        ("in_uint8", {"b64": ""}, errors.WrongShapeError, "bytes"),
    ],
)
def test_wrong_numbers_of_items(name: str, value: object, error: type[Exception], message: str) -> None:
    event = echoed(2, "nested")
    event["inputs"][name] = value
    with pytest.raises(error, match=message):
        parse_request(event, ECHO, LIMITS)


def test_more_items_than_are_taken() -> None:
    with pytest.raises(errors.TooManyImagesError, match="at most"):
        parse_request(echoed(LIMITS.items + 1, "nested"), ECHO, LIMITS)


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        ([1, 2, 3], "float32", errors.WrongShapeError),
        ([[1, 2], 3], "float32", errors.WrongShapeError),
        ([[1, 2], [3, [4]]], "float32", errors.WrongShapeError),
        (5, "float32", errors.WrongShapeError),
        ("abcd", "float32", errors.WrongShapeError),
        ([1, 2, 3, "4"], "float32", errors.WrongTypeError),
        ([1, 2, 3, None], "float64", errors.WrongTypeError),
        ([1, 2, 3, True], "float32", errors.WrongTypeError),
        ([1, 2, 3, 1e39], "float32", errors.WrongTypeError),
        ([1, 2, 3, 10**400], "float64", errors.WrongTypeError),
        ([1, 2, 3, 4.5], "int32", errors.WrongTypeError),
        ([1, 2, 3, 256], "uint8", errors.WrongTypeError),
        ([1, 2, 3, -1], "uint8", errors.WrongTypeError),
        ([0, 1, 2, 1], "bool", errors.WrongTypeError),
    ],
)
def test_wrong_tensors(value: object, dtype: str, error: type[Exception]) -> None:
    with pytest.raises(error, match='"x"'):
        read_tensor(value, Port("x", dtype, (2, 2), 0))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_every_dtype_nested_or_flat(dtype: str) -> None:
    port = Port("x", dtype, (2, 2), 0)
    assert (
        read_tensor([[0, 1], [1, 0]], port)
        == read_tensor([0, 1, 1, 0], port)
        == struct.pack(f"4{port.format}", 0, 1, 1, 0)
    )


def test_whole_numbers_with_a_point() -> None:
    assert read_tensor([1.0, 2, -0.0], Port("x", "int8", (3,), 3)) == b"\1\2\0"
    assert read_tensor([1.0, False], Port("x", "bool", (2,), 2)) == b"\1\0"


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64"])
def test_raw_bytes_are_the_same_as_numbers(dtype: str) -> None:
    numbers = struct.pack(f"<4{FORMATS[dtype]}", 0, 1, 1, 0)
    port = Port("x", dtype, (2, 2), len(numbers))
    assert read_tensor({"b64": base64.b64encode(numbers).decode()}, port) == read_tensor([0, 1, 1, 0], port) == numbers


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        ({}, "uint8", errors.WrongTypeError),
        ({"b64": 1}, "uint8", errors.WrongTypeError),
        ({"b64": "AAAAAA==", "more": 1}, "uint8", errors.WrongTypeError),
        ({"b64": "@"}, "uint8", errors.NotBase64Error),
        ({"b64": "é"}, "uint8", errors.NotBase64Error),
        ({"b64": "AAAA"}, "uint8", errors.WrongShapeError),
        ({"b64": "AAAAAAA="}, "uint8", errors.WrongShapeError),
        ({"b64": "AAAAAg=="}, "bool", errors.WrongTypeError),
    ],
)
def test_wrong_raw_bytes(value: object, dtype: str, error: type[Exception]) -> None:
    with pytest.raises(error, match='"x"'):
        read_tensor(value, Port("x", dtype, (2, 2), 4))


def test_a_scalar_tensor() -> None:
    assert read_tensor(3, Port("x", "int32", (), 4)) == struct.pack("i", 3)


def described(
    kind: str,
    shape: list[int],
    batch: int = 1,
    labels: list[str] | None = None,
    top_k: int | None = None,
    dtype: str = "float32",
) -> Description:
    fetch = abi_library._port("y", dtype, *shape)
    output = {"name": "out", "fetch": "y", "kind": kind, "labels": labels or [], "top_k": top_k}
    return parse_description(json.dumps(abi_library._describe("m", batch, [], [fetch], image=None, outputs=[output])))


def floats(*values: float) -> memoryview:
    return memoryview(array("f", values))


def test_classes_come_best_first_and_equal_ones_in_order() -> None:
    description = described("classification", [1, 4], labels=["a", "b", "c", "d"], top_k=3)
    (answer,) = make_predictions(description, [floats(0.25, 0.125, 0.25, 0.375)], 1)
    assert answer == {
        "out": [
            {"label": "d", "probability": 0.375},
            {"label": "a", "probability": 0.25},
            {"label": "c", "probability": 0.25},
        ]
    }


def test_classes_without_labels_are_numbered() -> None:
    (answer,) = make_predictions(described("classification", [1, 2]), [floats(0, 1)], 1)
    assert [c["label"] for c in answer["out"]] == ["1", "0"]


def test_undefined_numbers_are_null_and_last() -> None:
    (answer,) = make_predictions(described("classification", [1, 3]), [floats(float("nan"), -1, float("inf"))], 1)
    assert [c["probability"] for c in answer["out"]] == [-1, None, None]


def test_items_of_a_batch_are_kept_apart_and_padding_is_dropped() -> None:
    assert make_predictions(described("regression", [3, 2], batch=3), [floats(1, 2, 3, 4, 5, 6)], 2) == [
        {"out": [1, 2]},
        {"out": [3, 4]},
    ]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([1, 4], [1, 2, 3, 4]),
        ([1, 2, 2], [[1, 2], [3, 4]]),
        ([1, 2, 1, 2], [[[1, 2]], [[3, 4]]]),
        ([4], [1, 2, 3, 4]),
        ([2, 2], [[1, 2], [3, 4]]),
    ],
)
def test_raw_results_are_nested(shape: list[int], expected: Any) -> None:
    assert make_predictions(described("raw", shape), [floats(1, 2, 3, 4)], 1) == [{"out": expected}]


def test_a_scalar_result_is_a_number_and_an_empty_one_a_list() -> None:
    assert make_predictions(described("raw", []), [floats(5)], 1) == [{"out": 5}]
    assert make_predictions(described("raw", [1]), [floats(5)], 1) == [{"out": 5}]
    assert make_predictions(described("raw", [1, 2, 0]), [floats()], 1) == [{"out": [[], []]}]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_no_bit_of_a_float_is_lost(values: list[float]) -> None:
    (answer,) = make_predictions(described("regression", [1, len(values)]), [floats(*values)], 1)
    assert array("f", json.loads(json.dumps(answer["out"]))).tobytes() == array("f", values).tobytes()


@pytest.mark.parametrize(
    ("value", "count"), [([[[0, 0]]] * 3, 3), ([[0, 0]] * 3, 1), ([0, 0, 0], 1), ([], 1), ([[[[0]]]] * 2, 1)]
)
def test_only_lists_as_deep_as_the_shape_are_items(value: list[Any], count: int) -> None:
    """A list without the batch's brackets is refused in the shape of the model, and not in one of as many rows."""
    assert item_count(value, Port("x", "float32", (1, 1, 2), 8)) == count
