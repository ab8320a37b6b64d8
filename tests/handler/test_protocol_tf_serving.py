"""TensorFlow Serving's REST API against small real libraries; the shapes are those of its documentation."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.support import abi_library
from tests.support.http import Client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    single = abi_library.echo_description(batch=2)
    single["feeds"], single["fetches"] = [single["feeds"][-2]], [single["fetches"][-2]]
    single["outputs"], single["nan"] = single["outputs"][-2:-1], ["in_float32"]
    return Client.of(
        tmp_path_factory.mktemp("v1"),
        abi_library.picture_description(batch=2),
        abi_library.tensor_description(),
        single,
    )


def b64(level: int) -> dict[str, str]:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), level).save(buffer, "PNG")
    return {"b64": base64.b64encode(buffer.getvalue()).decode()}


A, N = [[1, 2, 3], [4, 5, 6]], [2, -1]


@pytest.mark.parametrize("path", ["/v1/models/product", "/v1/models/product/versions/7"])
def test_status(client: Client, path: str) -> None:
    status = {"error_code": "OK", "error_message": ""}
    assert client.get(path) == {"model_version_status": [{"version": "7", "state": "AVAILABLE", "status": status}]}


def test_metadata(client: Client) -> None:
    answer = client.get("/v1/models/product/versions/7/metadata")
    assert answer["model_spec"] == {"name": "product", "signature_name": "", "version": "7"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["a"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": [{"size": "2", "name": ""}, {"size": "3", "name": ""}], "unknown_rank": False},
        "name": "a",
    }
    assert signature["outputs"]["total"]["dtype"] == "DT_DOUBLE"
    assert signature["method_name"] == "tensorflow/serving/predict"
    echo = client.get("/v1/models/echo/metadata")["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert echo["inputs"]["in_float32"]["tensor_shape"]["dim"][0] == {"size": "-1", "name": ""}


@pytest.mark.parametrize("items", [1, 2, 5])
def test_one_unnamed_tensor(client: Client, items: int) -> None:
    rows = [[i, i + 0.5] for i in range(items)]
    for body, expected in (
        ({"instances": rows}, {"predictions": rows}),
        ({"instances": [{"in_float32": row} for row in rows]}, {"predictions": rows}),
        ({"inputs": rows}, {"outputs": rows}),
        ({"inputs": {"in_float32": rows}, "signature_name": "serving_default"}, {"outputs": rows}),
    ):
        assert client.post("/v1/models/echo:predict", body) == (200, expected)


def test_several_named_tensors(client: Client) -> None:
    expected = {"product": [[2, 4, 6], [-4, -5, -6]], "total": -3}
    body = {"inputs": {"a": A, "n": N}}
    assert client.post("/v1/models/product/versions/7:predict", body) == (200, {"outputs": expected})
    status, answer = client.post("/v1/models/product:predict", {"instances": [{"a": [1, 2, 3], "n": 2}] * 2})
    assert (status, answer) == (400, {"error": 'some tensors of this model do not begin with the batch; send "inputs"'})


@pytest.mark.parametrize("levels", [[3], [3, 200], [3, 200, 90, 7, 255]])
def test_images(client: Client, levels: list[int]) -> None:
    files = [b64(level) for level in levels]
    for instances in (files, [{"image": file} for file in files]):
        status, answer = client.post("/v1/models/brightness:predict", {"instances": instances})
        assert status == 200
        assert [row["level"] for row in answer["predictions"]] == [[level] for level in levels]
        assert set(answer["predictions"][0]) == {"light", "level", "pixels"}
    _, answer = client.post("/v1/models/brightness:predict", {"inputs": {"image": files}})
    assert answer["outputs"]["level"] == [[level] for level in levels]
    pixels = answer["outputs"]["pixels"]
    _, again = client.post("/v1/models/brightness:predict", {"instances": pixels})
    assert [row["pixels"] for row in again["predictions"]] == pixels


def test_numbers_that_strict_json_is_without(client: Client) -> None:
    body = b'{"instances": [[NaN, Infinity], [-Infinity, 5e-1]]}'
    response = client.send("POST", "/v1/models/echo:predict", body)
    assert response.body == b'{"predictions": [[NaN, Infinity], [-Infinity, 0.5]]}'


@given(rows=st.lists(st.tuples(*[st.floats(width=32, allow_nan=False)] * 2), min_size=1, max_size=9))
@settings(max_examples=50, deadline=None)
def test_no_bit_of_a_float_is_lost(client: Client, rows: list[tuple[float, float]]) -> None:
    _, answer = client.post("/v1/models/echo:predict", {"instances": rows})
    flat = [value for row in answer["predictions"] for value in row]
    assert struct.pack(f"{len(flat)}f", *flat) == struct.pack(f"{len(flat)}f", *[v for row in rows for v in row])


def test_rows_of_several_named_tensors(tmp_path: Path) -> None:
    two = abi_library.echo_description(batch=2)
    for key in ("feeds", "fetches", "outputs"):
        two[key] = [port for port in two[key] if port["name"].endswith(("_int16", "_float32"))]
    client = Client.of(tmp_path, two)
    rows = [{"in_int16": [i, 1], "in_float32": [i, 0.5]} for i in range(3)]
    expected = [{"out_int16": row["in_int16"], "out_float32": row["in_float32"]} for row in rows]
    assert client.post("/v1/models/echo:predict", {"instances": rows}) == (200, {"predictions": expected})
    for wrong in ([1, 2], {"in_int16": [1, 2]}, rows[0] | {"more": 1}):
        status, answer = client.post("/v1/models/echo:predict", {"instances": [rows[0], wrong]})
        assert (status, answer["error"]) == (400, '"instances"[1] must be an object with in_int16, in_float32')


@pytest.mark.parametrize(
    ("model", "body", "status", "says"),
    [
        ("echo", [], 400, "must be an object"),
        ("echo", {}, 400, "one of"),
        ("echo", {"instances": [[1, 2]], "inputs": [[1, 2]]}, 400, "one of"),
        ("echo", {"instances": [[1, 2]], "signature_name": "x"}, 400, "serving_default"),
        ("echo", {"instances": []}, 400, "at least one"),
        ("echo", {"instances": 5}, 400, "at least one"),
        ("echo", {"inputs": []}, 422, "list of items"),
        ("echo", {"inputs": 5}, 422, "list of items"),
        ("echo", {"inputs": {"x": []}}, 400, "object with in_float32"),
        ("echo", {"instances": [[1, 2], [3]]}, 422, "must have the shape [2, 2]"),
        ("echo", {"instances": [{"x": [1, 2]}]}, 422, "must have the shape"),
        ("echo", {"instances": [["1", 2]]}, 400, "float32 only"),
        ("echo", {"instances": [[0, 0]] * 5000}, 413, "5000 items; at most 4096"),
        ("brightness", {"instances": [b64(1), 5]}, 400, "all"),
        ("brightness", {"instances": [{"b64": "@"}]}, 400, '"image"[0] is not base64'),
        ("brightness", {"instances": [{"b64": "aGVsbG8="}]}, 415, "not an image"),
        ("brightness", {"instances": [{"b64": ""}] * 100}, 413, "has 100 images"),
        ("product", {"inputs": {"a": A}}, 400, "object with a, n"),
        ("product", {"inputs": A}, 400, "object with a, n"),
    ],
)
def test_wrong_requests(client: Client, model: str, body: Any, status: int, says: str) -> None:
    found, answer = client.post(f"/v1/models/{model}:predict", body)
    assert (found, set(answer)) == (status, {"error"})
    assert says in answer["error"]
    assert client.post("/v1/models/echo:predict", {"instances": [[1, 2]]})[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v1", 404, None),
        ("GET", "/v1/models", 404, None),
        ("GET", "/v1/models/none", 404, None),
        ("GET", "/v1/models/product/versions/8", 404, None),
        ("GET", "/v1/models/product/labels/stable", 404, None),
        ("POST", "/v1/models/product:classify", 404, None),
        ("POST", "/v1/models/product/metadata:predict", 404, None),
        ("POST", "/v1/models/product", 405, "GET"),
        ("GET", "/v1/models/product:predict", 405, "POST"),
    ],
)
def test_other_paths_and_methods(client: Client, method: str, path: str, status: int, allow: str | None) -> None:
    response = client.send(method, path)
    assert (response.status, response.headers.get("allow")) == (status, allow)
    assert set(json.loads(response.body)) == {"error"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "n", "image", "in_float32", "b64"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    key=st.sampled_from(["instances", "inputs"]), value=JSON, model=st.sampled_from(["brightness", "product", "echo"])
)
def test_nothing_that_is_sent_is_a_failure(client: Client, key: str, value: Any, model: str) -> None:
    response = client.send("POST", f"/v1/models/{model}:predict", json.dumps({key: value}).encode())
    assert response.status < 500, client.failures
