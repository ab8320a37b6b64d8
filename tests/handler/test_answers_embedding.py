"""Embeddings: written in each format, shortened, and as a request asks for them."""

from __future__ import annotations

import base64
import json
import math
import struct
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from handler.answer import compute_min_predictions_length, make_predictions, require_room
from handler.answers.embedding import FORMATS
from handler.description import Description, parse_description
from handler.errors import AnswerTooLargeError
from handler.options import AnswerOptions, apply_options
from tests.support import abi_library
from tests.support.http import Client

vectors = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=50)


def outputs(fetch: str, **said: Any) -> list[dict[str, Any]]:
    kind = {"kind": "embedding", "labels": [], "top_k": None, "format": "float32"}
    return [{"name": "vector", "fetch": fetch, **kind, **said}]


def described(size: int, batch: int = 1, dtype: str = "float32", **said: Any) -> Description:
    fetch = abi_library._port("y", dtype, batch, size)
    return parse_description(
        json.dumps(abi_library._describe("m", batch, [], [fetch], image=None, outputs=outputs("y", **said)))
    )


def written(values: list[float], **said: Any) -> Any:
    (answer,) = make_predictions(described(len(values), **said), [memoryview(array("f", values))], 1)
    return answer["vector"]


@given(vectors)
def test_no_bit_is_lost_in_float32_and_base64(values: list[float]) -> None:
    exact = array("f", values).tobytes()
    assert array("f", json.loads(json.dumps(written(values)))).tobytes() == exact
    assert base64.b64decode(written(values, format="base64")) == exact


@given(vectors)
def test_float16_is_the_nearest_and_short(values: list[float]) -> None:
    found = written(values, format="float16")
    np.testing.assert_array_equal(np.float16(found), np.float16(values))
    assert max(len(json.dumps(value)) for value in found) <= len("-1.2345e-05")


@given(vectors.filter(any))
def test_int8_keeps_the_direction(values: list[float]) -> None:
    found = written(values, format="int8")
    assert max(map(abs, found)) == 127
    assert all(type(value) is int for value in found)
    np.testing.assert_allclose(np.array(found) / 127 * max(map(abs, values)), values, atol=max(map(abs, values)) / 253)


@pytest.mark.parametrize("form", FORMATS)
def test_what_json_has_no_number_for(form: str) -> None:
    values = [math.nan, math.inf, -1.0, 0.0]
    found = written(values, format=form)
    if form == "base64":
        assert struct.unpack("<4f", base64.b64decode(found))[1:] == tuple(values[1:])
    else:
        assert found == [None, None, -127 if form == "int8" else -1, 0]
    assert written([70_000.0], format="float16") == [None]
    assert written([0.0, 0.0], format="int8") == [0, 0]


@pytest.mark.parametrize("form", FORMATS)
def test_a_vector_of_whole_numbers(form: str) -> None:
    """A fuzzer found that those beyond float16 were an internal error."""
    described_so = described(2, dtype="int32", format=form)
    (answer,) = make_predictions(described_so, [memoryview(array("i", [1 << 30, -3]))], 1)
    found = answer["vector"]
    if form == "base64":
        assert struct.unpack("<2f", base64.b64decode(found)) == (2.0**30, -3.0)
    else:
        assert found == {"float32": [1 << 30, -3], "float16": [None, -3], "int8": [127, 0]}[form]


@given(vectors, st.data())
def test_a_part_is_normalised_again_where_the_whole_is(values: list[float], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(values)))
    for normalise in (False, True):
        description = apply_options(described(len(values), normalise=normalise), AnswerOptions(dimensions=count))
        (answer,) = make_predictions(description, [memoryview(array("f", values))], 1)
        part = np.array(values[:count])
        norm = float(np.linalg.norm(part)) if normalise else 1.0
        np.testing.assert_allclose(answer["vector"], part / (norm or 1.0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dimensions", [None, 3])
def test_the_least_that_is_expected_is_no_more_than_it_has(form: str, dimensions: int | None) -> None:
    description = apply_options(described(8, batch=2), AnswerOptions(dimensions=dimensions, format=form))
    found = make_predictions(description, [memoryview(array("f", bytes(64)))], 2)
    assert 0 < compute_min_predictions_length(description, 2) <= len(json.dumps(found))


def test_text_of_many_bytes_is_no_small_answer() -> None:
    with pytest.raises(AnswerTooLargeError):
        require_room({"predictions": [{"vector": "A" * 7_000_000}]})
    require_room({"predictions": [{"vector": "A" * 6_000_000}]})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    echo = abi_library.echo_description(batch=2)
    echo["outputs"] = outputs("out_float32", normalise=True)
    return Client.of(tmp_path_factory.mktemp("embedding"), echo, abi_library.tensor_description())


def inputs(count: int = 2, **options: Any) -> dict[str, Any]:
    zeros = {f"in_{dtype}": [[0, 0]] * count for dtype in abi_library.DTYPES}
    return {"model": "echo", "inputs": zeros | {"in_float32": [[0.6, 0.8]] * count}, **options}


def test_a_request_chooses_in_the_query_or_beside_its_input(client: Client) -> None:
    for query, body in (({"format": "int8"}, {}), ({}, {"format": "int8"}), ({"format": "int8"}, {"format": "base64"})):
        status, answer = client.post("/predict", inputs(3, **body), **query)
        assert (status, answer["predictions"]) == (200, [{"vector": [95, 127]}] * 3)
    _, answer = client.post("/predict", inputs(1, dimensions=1), format="base64")
    assert base64.b64decode(answer["predictions"][0]["vector"]) == struct.pack("<f", 1.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dimensions": 3}, "at most 2"),
        ({"dimensions": 0}, "a whole number"),
        ({"dimensions": True}, "a whole number"),
        ({"dimensions": 1.5}, "a whole number"),
        ({"format": "int4"}, "one of float32"),
        ({"format": 8}, "must be a string"),
        ({"threshold": 0.5}, "of kind detection"),
        ({"format": "int8", "model": "product"}, "this model has none"),
        ({"dimensions": 1, "model": "product"}, "this model has none"),
    ],
)
def test_wrong_choices(client: Client, options: dict[str, Any], says: str) -> None:
    given_inputs = {"a": [[1, 2, 3]] * 2, "n": [1, 2]} if "model" in options else inputs()["inputs"]
    status, answer = client.post("/predict", {"model": "echo", "inputs": given_inputs, **options})
    assert (status, answer["error"]["code"]) == (400, "wrong_field")
    assert says in answer["error"]["message"]


def test_openapi_says_what_may_be_chosen(tmp_path: Path) -> None:
    echo = abi_library.echo_description(batch=2)
    echo["outputs"] = outputs("out_float32")
    alone = Client.of(tmp_path, echo)
    operation = alone.get("/openapi.json")["paths"]["/predict"]["post"]
    schemas = {one["name"]: one["schema"] for one in operation["parameters"]}
    assert (schemas["dimensions"]["maximum"], schemas["format"]["enum"]) == (2, list(FORMATS))
    body = Draft202012Validator(operation["requestBody"]["content"]["application/json"]["schema"])
    told = Draft202012Validator(operation["responses"]["200"]["content"]["application/json"]["schema"])
    for form in FORMATS:
        request = inputs(dimensions=2, format=form)
        del request["model"]
        status, answer = alone.post("/predict", request)
        assert status == 200
        body.validate(request)
        told.validate(answer)
    assert list(body.iter_errors(inputs(dimensions=3)))
