"""An index out of range, through every protocol: ``unfit_input``, with the input, the element and the range."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.support.http import Client
from tests.support.index_model import DTYPES, build

SECRET = 424242
LARGEST = {"int8": 127, "uint8": 255, "int16": 32767, "uint16": 65535}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build(tmp_path_factory.mktemp("ranges")))


@pytest.fixture(scope="module")
def client(library: str) -> Client:
    return Client(Server({"rows": Model(library)}, RequestLimits()))


def arrays(dtype: str = "int32", item: int = 0, column: int = 0) -> dict[str, np.ndarray]:
    """Five items, of which one has an index out of range: they are run as four and one."""
    found = {one: np.zeros((5, 3), one) for one in DTYPES}
    found[dtype][item, column] = LARGEST.get(dtype, SECRET)
    return found


def requests(given: dict[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
    lists = {name: array.tolist() for name, array in given.items()}
    yield "/predict", {"inputs": lists}
    yield "/predict", {"inputs": {n: {"b64": base64.b64encode(a.tobytes()).decode()} for n, a in given.items()}}
    yield "/v1/models/rows:predict", {"inputs": lists}
    yield "/v1/models/rows:predict", {"instances": [{n: rows[at] for n, rows in lists.items()} for at in range(5)]}
    tensors = [
        {"name": name, "datatype": name.upper().replace("FLOAT", "FP"), "shape": [5, 3], "data": rows}
        for name, rows in lists.items()
    ]
    yield "/v2/models/rows/infer", {"inputs": tensors}


@pytest.mark.parametrize(("dtype", "item", "column", "limits"), [
    *((dtype, 1, 2, "from 0 to 5") for dtype in DTYPES),
    ("int64", 4, 0, "from -10 to 9"),
    ("uint32", 4, 0, "from 0 to 9"),
])  # fmt: skip
def test_it_is_the_caller_s_error(client: Client, dtype: str, item: int, column: int, limits: str) -> None:
    before = len(client.failures)
    for path, body in requests(arrays(dtype, item, column)):
        status, answer = client.post(path, body)
        assert status == 422, path
        text = json.dumps(answer)
        assert f"element {3 * item + column} " in text
        assert limits in text
        assert dtype in text
        assert str(SECRET) not in text
        if path == "/predict":
            assert answer["error"]["code"] == "unfit_input"
    assert len(client.failures) == before


def test_the_next_request_is_answered(client: Client) -> None:
    good = arrays() | {"int32": np.arange(15, dtype=np.int32).reshape(5, 3) % 6}
    for path, body in requests(good):
        status, answer = client.post(path, body)
        assert status == 200, answer


def test_a_binary_tensor_of_open_inference(client: Client) -> None:
    given = arrays("float32", 4, 2)
    sizes = [
        {
            "name": n,
            "datatype": n.upper().replace("FLOAT", "FP"),
            "shape": [5, 3],
            "parameters": {"binary_data_size": a.nbytes},
        }
        for n, a in given.items()
    ]
    head = json.dumps({"inputs": sizes}).encode()
    body = head + b"".join(array.tobytes() for array in given.values())
    headers = {"inference-header-content-length": str(len(head))}
    response = client.send("POST", "/v2/models/rows/infer", body, headers)
    assert response.status == 422
    assert b"element 14 " in (response.body if isinstance(response.body, bytes) else response.body.encode())


def test_an_input_that_is_filled_up(library: str) -> None:
    model = Model(library)
    model.description = model.description._replace(pad={"int16": 0.0})
    lists = {name: array.tolist() for name, array in arrays("int16", 3).items()}
    lists["int16"] = [row[:2] for row in lists["int16"]]
    status, answer = Client(Server({"rows": model}, RequestLimits())).post("/predict", {"inputs": lists})
    assert status == 422
    assert '"int16": element [3, 0] ' in answer["error"]["message"]
