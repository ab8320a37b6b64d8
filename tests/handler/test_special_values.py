"""NaN and infinities in requests: refused by the input's name in every protocol, unless the model takes them there."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handler.description import Port
from handler.errors import UnfitInputError
from handler.protocols.open_inference import LENGTH
from handler.tensors import read_tensor, require_finite
from tests.support import abi_library
from tests.support.example_protos import encode_proto
from tests.support.http import Client

NOT_FINITE = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"]
"""As a request's JSON has them."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """``product`` takes finite numbers, ``echo`` any float64 and finite float32."""
    open_echo = abi_library.echo_description() | {"nan": ["in_float64"]}
    return Client.of(tmp_path_factory.mktemp("special"), abi_library.tensor_description(), open_echo)


def product_bodies(number: str) -> dict[str, str]:
    """A request with ``number`` as element 4 of the input ``a``, for each protocol's path."""
    rows, n = f"[[1, 2, 3], [4, {number}, 6]]", "[1, 2]"
    tensors = (
        f'{{"name": "a", "shape": [2, 3], "datatype": "FP32", "data": {rows}}}, '
        f'{{"name": "n", "shape": [2], "datatype": "INT64", "data": {n}}}'
    )
    return {
        "/predict": f'{{"model": "product", "inputs": {{"a": {rows}, "n": {n}}}}}',
        "/v1/models/product:predict": f'{{"inputs": {{"a": {rows}, "n": {n}}}}}',
        "/v2/models/product/infer": f'{{"inputs": [{tensors}]}}',
    }


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("path", product_bodies(""))
def test_json_is_refused_by_name(client: Client, path: str, number: str) -> None:
    assert client.send("POST", path, product_bodies("5")[path].encode()).status == 200
    response = client.send("POST", path, product_bodies(number)[path].encode())
    assert response.status == 422
    assert b'\\"a\\"' in response.body
    assert b"element 4 " in response.body


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_binary_tensors_are_refused_by_name(client: Client, value: float) -> None:
    raw = struct.pack("<6f", 1, 2, 3, 4, value, 6)
    b64 = {"b64": base64.b64encode(raw).decode()}
    status, answer = client.post("/predict", {"model": "product", "inputs": {"a": b64, "n": [1, 2]}})
    assert (status, answer["error"]["code"]) == (422, "unfit_input")
    a: dict[str, Any] = {"name": "a", "shape": [2, 3], "datatype": "FP32", "parameters": {"binary_data_size": 24}}
    n = {"name": "n", "shape": [2], "datatype": "INT64", "data": [1, 2]}
    head = json.dumps({"inputs": [a, n]}).encode()
    response = client.send("POST", "/v2/models/product/infer", head + raw, {LENGTH: str(len(head))})
    assert response.status == 422
    assert b'\\"a\\": element 4 ' in response.body


def test_an_input_that_takes_them_gets_them_and_its_neighbour_does_not(client: Client) -> None:
    inputs = {f"in_{dtype}": "[[0, 1], [1, 0]]" for dtype in abi_library.DTYPES}

    def sent(**changed: str) -> tuple[int, bytes]:
        text = ", ".join(f'"{name}": {value}' for name, value in {**inputs, **changed}.items())
        response = client.send("POST", "/v1/models/echo:predict", f'{{"inputs": {{{text}}}}}'.encode())
        return response.status, response.body

    status, body = sent(in_float64="[[NaN, Infinity], [-Infinity, 1]]")
    assert status == 200
    assert b'"out_float64": [[NaN, Infinity], [-Infinity, 1.0]]' in body
    status, body = sent(in_float32="[[0, 1], [NaN, 1]]")
    assert status == 422
    assert b'\\"in_float32\\": element 2 ' in body


def test_examples_are_refused_by_the_features_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    closed, opened = abi_library.example_description(), abi_library.example_description() | {"nan": ["level"]}
    data = [base64.b64encode(encode_proto([("level", "float32", level)])).decode() for level in ([1, 2], [3, math.nan])]
    status, answer = Client.of(tmp_path_factory.mktemp("no"), closed).post("/predict", {"examples": data})
    assert (status, answer["error"]["code"]) == (422, "unfit_input")
    assert '"examples"[1]: the feature "level": element 1 ' in answer["error"]["message"]
    status, answer = Client.of(tmp_path_factory.mktemp("yes"), opened).post("/predict", {"examples": data})
    assert (status, answer["predictions"][1]["same_level"]) == (200, [3, None])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(data=st.data())
def test_every_number_that_is_not_finite_is_seen_and_no_other(dtype: str, data: st.DataObject) -> None:
    width = 32 if dtype == "float32" else 64
    numbers = data.draw(st.lists(st.floats(width=width) | st.sampled_from([3e38, -3e38, 1.7e38, math.inf]), max_size=9))
    port = Port("x", dtype, (len(numbers),), len(numbers) * width // 8)
    raw = struct.pack(f"<{len(numbers)}{port.format}", *numbers)
    first = next((number for number, value in enumerate(numbers) if not math.isfinite(value)), None)
    if first is None:
        assert require_finite(raw, port, "x") == read_tensor(list(numbers), port) == raw
    else:
        with pytest.raises(UnfitInputError, match=f"x: element {first} "):
            require_finite(raw, port, "x")
    assert require_finite(raw, port._replace(nan=True), "x") == raw
