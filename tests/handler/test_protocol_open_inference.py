"""The Open Inference Protocol, version 2, against small real libraries."""

from __future__ import annotations

import base64
import io
import json
import struct
from array import array
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from handler.description import FORMATS
from handler.http import HttpResponse
from handler.protocols.open_inference import name_datatype
from tests.support import abi_library
from tests.support.http import Client

LENGTH = "inference-header-content-length"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client.of(
        tmp_path_factory.mktemp("v2"),
        abi_library.picture_description(batch=2),
        abi_library.tensor_description(),
        abi_library.echo_description(batch=2),
    )


def flat(level: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), level).save(buffer, "PNG")
    return buffer.getvalue()


def text(level: int) -> str:
    return base64.b64encode(flat(level)).decode()


def pictures(*data: Any, **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "image", "shape": [len(data)], "datatype": "BYTES", "data": list(data)}], **more}


def of_name(answer: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [output for output in answer["outputs"] if output["name"] == name]
    return found


A = {"name": "a", "shape": [2, 3], "datatype": "FP32", "data": [[1, 2, 3], [4, 5, 6]]}
N = {"name": "n", "shape": [2], "datatype": "INT64", "data": [2, -1]}


def test_the_server_and_its_models(client: Client) -> None:
    server = client.get("/v2")
    assert server == {"name": "coldforge", "version": "0.1.0", "extensions": ["binary_tensor_data", "classification"]}
    assert client.get("/v2/health/live") == {"live": True}
    assert client.get("/v2/health/ready") == {"ready": True}
    assert client.get("/v2/models/product/ready") == {"name": "product", "ready": True}
    assert client.get("/v2/models/product/versions/7/ready") == {"name": "product", "ready": True}


def test_metadata(client: Client) -> None:
    assert client.get("/v2/models/product/versions/7") == {
        "name": "product",
        "versions": ["7"],
        "platform": "coldforge_libmodel",
        "inputs": [
            {"name": "a", "datatype": "FP32", "shape": [2, 3]},
            {"name": "n", "datatype": "INT64", "shape": [2]},
        ],
        "outputs": [
            {"name": "product", "datatype": "FP32", "shape": [2, 3]},
            {"name": "total", "datatype": "FP64", "shape": []},
        ],
    }
    assert client.get("/v2/models/brightness")["inputs"][0]["shape"] == [-1, 8, 8, 1]


def test_tensors_as_json(client: Client) -> None:
    status, answer = client.post("/v2/models/product/infer", {"id": "x1", "inputs": [A, N]})
    assert status == 200
    assert answer == {
        "model_name": "product",
        "model_version": "7",
        "id": "x1",
        "outputs": [
            {"name": "product", "datatype": "FP32", "shape": [2, 3], "data": [2, 4, 6, -4, -5, -6]},
            {"name": "total", "datatype": "FP64", "shape": [], "data": [-3]},
        ],
    }


def test_only_what_is_asked_for(client: Client) -> None:
    body = {"inputs": [A | {"data": [1, 2, 3, 4, 5, 6]}, N], "outputs": [{"name": "total"}]}
    _, answer = client.post("/v2/models/product/infer", body)
    assert [output["name"] for output in answer["outputs"]] == ["total"]


@pytest.mark.parametrize("dtype", abi_library.DTYPES)
@pytest.mark.parametrize("items", [1, 2, 5])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_dtype_both_ways(client: Client, dtype: str, items: int, data: st.DataObject) -> None:
    """Any number of items, in JSON and in binary form, comes back bit by bit."""
    count = items * 2
    code, size = FORMATS[dtype], struct.calcsize(FORMATS[dtype])
    raw = (
        bytes(data.draw(st.integers(0, 1)) for _ in range(count))
        if dtype == "bool"
        else data.draw(st.binary(min_size=count * size, max_size=count * size))
    )
    values = struct.unpack(f"<{count}{code}", raw)
    if dtype.startswith("float"):  # NaN and infinity have no JSON
        values = tuple(v if abs(v) < 3e38 else 0.0 for v in values)
        raw = struct.pack(f"<{count}{code}", *values)
    others = [d for d in abi_library.DTYPES if d != dtype]
    head = {"shape": [items, 2]}
    zeros = [{"name": f"in_{d}", "datatype": name_datatype(d), "data": [0] * count, **head} for d in others]
    out = {"name": f"out_{dtype}"}
    mine = {"name": f"in_{dtype}", "datatype": name_datatype(dtype), **head}
    # JSON in, binary out
    body = {"inputs": [*zeros, mine | {"data": list(values)}], "outputs": [out | {"parameters": {"binary_data": True}}]}
    sent = json.dumps(body).encode()
    response = client.send("POST", "/v2/models/echo/infer", sent)
    answer, blob = split(response)
    assert blob == raw
    assert answer["outputs"] == [
        {"name": out["name"], "datatype": name_datatype(dtype), "shape": [items, 2],
         "parameters": {"binary_data_size": len(raw)}}
    ]  # fmt: skip
    # binary in, JSON out
    body = {"inputs": [mine | {"parameters": {"binary_data_size": len(raw)}}, *zeros], "outputs": [out]}
    sent = json.dumps(body).encode()
    response = client.send("POST", "/v2/models/echo/infer", sent + raw, {LENGTH: str(len(sent))})
    (output,) = json.loads(response.body)["outputs"]
    assert struct.pack(f"<{count}{code}", *output["data"]) == raw


def split(response: HttpResponse) -> tuple[dict[str, Any], bytes]:
    assert response.status == 200, response.body
    assert response.headers["content-type"] == "application/octet-stream"
    length = int(response.headers[LENGTH])
    return json.loads(response.body[:length]), response.body[length:]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("levels", [[3], [3, 200], [3, 200, 90, 7, 255]])
def test_images_in_their_order(client: Client, levels: list[int], binary: bool) -> None:
    """More than the compiled batch of two is several runs; fewer is a padded one."""
    if binary:
        blob = b"".join(struct.pack("<I", len(flat(v))) + flat(v) for v in levels)
        event = {
            "inputs": [
                {"name": "image", "shape": [len(levels), 1], "datatype": "BYTES",
                 "parameters": {"binary_data_size": len(blob)}}
            ],
            "parameters": {"binary_data_output": True},
        }  # fmt: skip
        head = json.dumps(event).encode()
        response = client.send("POST", "/v2/models/brightness/infer", head + blob, {LENGTH: str(len(head))})
        answer, data = split(response)
        sizes = [output["parameters"]["binary_data_size"] for output in answer["outputs"]]
        assert sum(sizes) == len(data)
        seen = array("f", data[sizes[0] : sizes[0] + sizes[1]]).tolist()
    else:
        status, answer = client.post("/v2/models/brightness/infer", pictures(*map(text, levels)))
        assert status == 200
        seen = of_name(answer, "level")["data"]
    assert seen == levels
    assert of_name(answer, "light")["shape"] == [len(levels), 2]
    assert of_name(answer, "pixels")["shape"] == [len(levels), 8, 8, 1]


def test_images_in_rows_of_one(client: Client) -> None:
    """As clients nest what has the shape [n, 1]."""
    event = pictures(text(3), text(200))
    event["inputs"][0] |= {"shape": [2, 1], "data": [[text(3)], [text(200)]]}
    status, answer = client.post("/v2/models/brightness/infer", event)
    assert (status, of_name(answer, "level")["data"]) == (200, [3, 200])


def test_the_pixels_themselves(client: Client) -> None:
    data = [7] * 64 + [9] * 64 + [11] * 64
    event = {"inputs": [{"name": "image", "shape": [3, 8, 8, 1], "datatype": "UINT8", "data": data}]}
    _, answer = client.post("/v2/models/brightness/infer", event)
    assert of_name(answer, "pixels")["data"] == data


@pytest.mark.parametrize("binary", [False, True])
def test_classification(client: Client, binary: bool) -> None:
    asked = [{"name": "light", "parameters": {"classification": 1, "binary_data": binary}}]
    body = json.dumps(pictures(text(255), text(0), text(255), outputs=asked)).encode()
    response = client.send("POST", "/v2/models/brightness/infer", body)
    expected = ["1.000000:0:light", "1.000000:1:dark", "1.000000:0:light"]
    if binary:
        answer, blob = split(response)
        assert blob == b"".join(struct.pack("<I", len(e)) + e.encode() for e in expected)
    else:
        answer = json.loads(response.body)
        assert answer["outputs"][0]["data"] == expected
    assert (answer["outputs"][0]["datatype"], answer["outputs"][0]["shape"]) == ("BYTES", [3, 1])


def test_classification_of_what_has_no_labels(client: Client) -> None:
    asked = [{"name": "product", "parameters": {"classification": 2}}]
    _, answer = client.post("/v2/models/product/infer", {"inputs": [A, N], "outputs": asked})
    assert answer["outputs"][0]["data"] == ["6.000000:2", "4.000000:1", "-4.000000:0", "-5.000000:1"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "is not JSON"),
        (b"[" * 100_000, 400, "is not JSON"),
        (b"[]", 400, "must be an object"),
        ({}, 400, '"inputs" must be "a"'),
        ({"inputs": {}}, 400, '"inputs" must be a list of objects'),
        ({"inputs": [1]}, 400, "list of objects"),
        ({"inputs": [A]}, 400, '"n" (INT64)'),
        ({"inputs": [A, N, A]}, 400, "a name of its own"),
        ({"inputs": [A, N], "id": 5}, 400, '"id"'),
        ({"inputs": [A, N], "parameters": []}, 400, '"parameters"'),
        ({"inputs": [A, N], "parameters": {"signature": 5}}, 400, '"signature" must be a string'),
        ({"inputs": [A, N], "parameters": {"binary_data_output": 1}}, 400, "must be true or false"),
        ({"inputs": [A, N], "outputs": [{"name": "x"}]}, 400, 'no output "x"; choose from product, total'),
        ({"inputs": [A, N], "outputs": [{"name": "total", "parameters": {"classification": True}}]}, 400, "whole"),
        ({"inputs": [A | {"datatype": "FP64"}, N]}, 400, "datatype FP32"),
        ({"inputs": [A | {"shape": [3, 2]}, N]}, 422, "[3, 2]; [2, 3] is needed"),
        ({"inputs": [A | {"shape": [4, 3]}, N]}, 422, "[2, 3] is needed"),
        ({"inputs": [A | {"shape": "2,3"}, N]}, 400, "must have a shape"),
        ({"inputs": [A | {"shape": [2, True]}, N]}, 400, "must have a shape"),
        ({"inputs": [A | {"data": [1, 2]}, N]}, 422, "must have the shape"),
        ({"inputs": [A | {"data": ["1"] * 6}, N]}, 400, "float32 only"),
        ({"inputs": [{"name": "a", "shape": [2, 3], "datatype": "FP32"}, N]}, 400, "no data"),
        ({"inputs": [A | {"parameters": {"binary_data_size": 0}}, N]}, 400, "both"),
        ({"inputs": [A | {"parameters": {"binary_data_size": -1}}, N]}, 400, "binary_data_size"),
        ({"inputs": [A | {"parameters": {"binary_data_size": 24}}, N]}, 400, "the 0 bytes that are left"),
    ],
)
def test_wrong_requests(client: Client, body: Any, status: int, says: str) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.send("POST", "/v2/models/product/infer", sent)
    answer = json.loads(response.body)
    assert (response.status, set(answer)) == (status, {"error"})
    assert says in answer["error"]
    assert client.post("/v2/models/product/infer", {"inputs": [A, N]})[0] == 200


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"data": ["@"]}, 400, '"image"[0] is not base64'),
        ({"data": [base64.b64encode(b"hello").decode()]}, 415, '"image"[0] is not an image'),
        ({"data": []}, 422, "not as many elements"),
        ({"data": [text(1)] * 2}, 422, "not as many elements"),
        ({"data": text(1)}, 400, "list of strings"),
        ({"shape": [1, 2]}, 422, "shape [n]"),
        ({"shape": []}, 422, "shape [n]"),
        ({"shape": [0], "data": []}, 422, "shape [n]"),
        ({"shape": [1000]}, 413, "1000 elements"),
        ({"shape": [0, 8, 8, 1], "datatype": "UINT8", "data": []}, 422, "[n, 8, 8, 1] is needed"),
        ({"shape": [10**9, 8, 8, 1], "datatype": "UINT8", "data": []}, 413, "at most 4096 are allowed"),
    ],
)
def test_wrong_images(client: Client, change: dict[str, Any], status: int, says: str) -> None:
    event = pictures(text(1))
    event["inputs"][0] |= change
    found, answer = client.post("/v2/models/brightness/infer", event)
    assert (found, set(answer)) == (status, {"error"})
    assert says in answer["error"]


@pytest.mark.parametrize(
    ("length", "size", "blob", "says"),
    [
        ("x", 24, bytes(24), "length of the JSON"),
        ("99999", 24, bytes(24), "length of the JSON"),
        (None, 23, bytes(23), "23 bytes; its shape and datatype make 24"),
        (None, 24, bytes(25), "1 bytes more"),
        (None, 24, bytes(23), "the 23 bytes that are left"),
    ],
)
def test_wrong_binary_tensors(client: Client, length: str | None, size: int, blob: bytes, says: str) -> None:
    event = {"inputs": [{**A, "parameters": {"binary_data_size": size}}, N]}
    del event["inputs"][0]["data"]
    head = json.dumps(event).encode()
    headers = {LENGTH: length or str(len(head))}
    response = client.send("POST", "/v2/models/product/infer", head + blob, headers)
    assert response.status in (400, 422)
    assert says in json.loads(response.body)["error"]


def test_bytes_that_end_inside_an_element(client: Client) -> None:
    for blob in (b"\x05\0\0\0abcd", b"\x01\0\0", b"\xff\xff\xff\xff"):
        event = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES",
                             "parameters": {"binary_data_size": len(blob)}}]}  # fmt: skip
        head = json.dumps(event).encode()
        response = client.send("POST", "/v2/models/brightness/infer", head + blob, {LENGTH: str(len(head))})
        assert (response.status, json.loads(response.body)) == (422, {"error": '"image" ends inside an element'})


def test_a_bool_is_0_or_1(client: Client) -> None:
    inputs = [
        {"name": f"in_{d}", "shape": [1, 2], "datatype": name_datatype(d), "data": [0, 1]} for d in abi_library.DTYPES
    ]
    del inputs[0]["data"]
    inputs[0]["parameters"] = {"binary_data_size": 2}
    head = json.dumps({"inputs": inputs}).encode()
    answers = [
        client.send("POST", "/v2/models/echo/infer", head + blob, {LENGTH: str(len(head))}).status
        for blob in (b"\0\1", b"\0\2")
    ]
    assert answers == [200, 400]


def test_inputs_of_different_numbers_of_items(client: Client) -> None:
    items = {"bool": 2}
    inputs = [
        {
            "name": f"in_{d}",
            "shape": [items.get(d, 1), 2],
            "datatype": name_datatype(d),
            "data": [0, 1] * items.get(d, 1),
        }
        for d in abi_library.DTYPES
    ]
    status, answer = client.post("/v2/models/echo/infer", {"inputs": inputs})
    assert status == 422
    assert '"in_bool" has 2, "in_int8" has 1' in answer["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v2/models/none", 404, None),
        ("GET", "/v2/models/product/versions/8", 404, None),
        ("GET", "/v2/models", 404, None),
        ("GET", "/v2/models/", 404, None),
        ("GET", "/v2/models/product/versions", 404, None),
        ("GET", "/v2/health", 404, None),
        ("GET", "/v2/models/product/config", 404, None),
        ("POST", "/v2", 405, "GET"),
        ("GET", "/v2/models/product/infer", 405, "POST"),
        ("DELETE", "/v2/models/product", 405, "GET"),
        ("OPTIONS", "/v2", 405, "GET"),
    ],
)
def test_other_paths_and_methods(client: Client, method: str, path: str, status: int, allow: str | None) -> None:
    response = client.send(method, path)
    assert (response.status, response.headers.get("allow")) == (status, allow)
    assert set(json.loads(response.body)) == {"error"}


def test_a_failure_of_the_model_tells_the_caller_nothing(client: Client) -> None:
    status, answer = client.post("/v2/models/brightness/infer", pictures(text(abi_library.POISON)))
    assert (status, "kernel" in answer["error"], "request-1" in answer["error"]) == (500, False, True)
    client.failures.clear()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["name", "shape", "datatype", "data", "parameters", "binary_data_size"]), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tensor=st.fixed_dictionaries(
        {}, optional={"name": st.sampled_from(["a", "image"]) | JSON, "shape": st.lists(st.integers(-1, 3)) | JSON,
                      "datatype": st.sampled_from(["BYTES", "FP32", "UINT8"]) | JSON, "data": JSON,
                      "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": st.integers(0, 9)}) | JSON},
    ),
    outputs=JSON, blob=st.binary(max_size=20), model=st.sampled_from(["brightness", "product", "echo"]),
)  # fmt: skip
def test_nothing_that_is_sent_is_a_failure(client: Client, tensor: Any, outputs: Any, blob: bytes, model: str) -> None:
    head = json.dumps({"inputs": [tensor, N], "outputs": outputs}).encode()
    alone = json.dumps({"inputs": [tensor]}).encode()
    for sent in (head, alone):
        response = client.send("POST", f"/v2/models/{model}/infer", sent + blob, {LENGTH: str(len(sent))})
        assert response.status < 500, client.failures
