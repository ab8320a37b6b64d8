"""A class's number is answered with its label, in our own protocol and in TensorFlow Serving's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import abi_library
from tests.support.http import Client

LABELS = ["ant", "bee", "cat"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """int64 [2, 2] in, and the labels of the same numbers out."""
    echo = abi_library.echo_description(batch=2)
    at = next(i for i, feed in enumerate(echo["feeds"]) if feed["dtype"] == "int64")
    echo["feeds"], echo["fetches"] = [echo["feeds"][at]], [echo["fetches"][at]]
    name = echo["fetches"][0]["name"]
    echo["outputs"] = [{"name": "animals", "fetch": name, "kind": "label", "labels": LABELS, "top_k": None}]
    folder: Path = tmp_path_factory.mktemp("labels")
    return Client.of(folder, echo)


def test_our_own_protocol(client: Client) -> None:
    status, answer = client.post("/predict", {"inputs": {"in_int64": [[0, 2], [1, 1]]}})
    assert status == 200
    assert [item["animals"] for item in answer["predictions"]] == [["ant", "cat"], ["bee", "bee"]]


@pytest.mark.parametrize("number", [3, -1, 2**62])
def test_a_number_without_a_label(client: Client, number: int) -> None:
    _, answer = client.post("/predict", {"inputs": {"in_int64": [[number, 0], [0, 0]]}})
    assert answer["predictions"][0]["animals"] == [str(number), "ant"]


def test_tensorflow_serving(client: Client) -> None:
    status, answer = client.post("/v1/models/echo:predict", {"instances": [[0, 2], [1, 1], [2, 7]]})
    assert (status, answer) == (200, {"predictions": [["ant", "cat"], ["bee", "bee"], ["cat", "7"]]})
    found: dict[str, Any] = client.get("/v1/models/echo/metadata")["metadata"]["signature_def"]["signature_def"]
    (output,) = found["serving_default"]["outputs"].values()
    assert output["dtype"] == "DT_STRING"


def test_the_open_inference_protocol_has_the_numbers(client: Client) -> None:
    body = {"inputs": [{"name": "in_int64", "shape": [2, 2], "datatype": "INT64", "data": [0, 2, 1, 1]}]}
    status, answer = client.post("/v2/models/echo/infer", body)
    assert (status, answer["outputs"][0]["data"]) == (200, [0, 2, 1, 1])


def test_openapi_says_that_they_are_texts(client: Client) -> None:
    schema = client.get("/openapi.json")
    assert '"animals": {"type": ["array", "string"]}' in str(schema).replace("'", '"')
