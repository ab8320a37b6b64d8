"""Answers whose size the data decides, through every protocol: what is there, and nothing else."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from builder.package.openapi import make_document
from handler.answer import make_predictions
from handler.budget import RequestLimits
from handler.description import Description, parse_description
from handler.errors import StartupError
from handler.model import Model
from handler.server import Server
from tests.support.dynamic_model import build
from tests.support.http import Client

NOTHING, SOME, ALL = ([0, 2], []), ([1, 2], [[1, 2]]), ([3, 2], [[1, 2], [3, 4], [5, 6]])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(Server({"rows": Model(str(build(tmp_path_factory.mktemp("dynamic"))))}, RequestLimits()))


def inputs(rows: list[int], flags: list[int]) -> dict[str, Any]:
    return {"x": [1, 2, 3, 4, 5, 6], "m": [True, False, True, True], "n": rows, "k": flags}


FLAGS = [([0, 2], []), ([1, 2], [[True, False]]), ([2, 1], [[True], [False]])]


@pytest.mark.parametrize(("rows", "expected"), [NOTHING, SOME, ALL])
@pytest.mark.parametrize(("flags", "bits"), FLAGS)
def test_predict(client: Client, rows: list[int], expected: Any, flags: list[int], bits: Any) -> None:
    status, answer = client.post("/predict", {"inputs": inputs(rows, flags)})
    assert (status, answer["predictions"]) == (200, [{"rows": expected, "flags": bits}])


@pytest.mark.parametrize(("rows", "expected"), [NOTHING, SOME, ALL])
def test_tensorflow_serving(client: Client, rows: list[int], expected: Any) -> None:
    answer = client.post("/v1/models/rows:predict", {"inputs": inputs(rows, [1, 1])})
    assert answer == (200, {"outputs": {"rows": expected, "flags": [[True]]}})
    signatures = client.get("/v1/models/rows/metadata")["metadata"]["signature_def"]["signature_def"]
    outputs = signatures["serving_default"]["outputs"]
    sizes = {name: [dim["size"] for dim in port["tensor_shape"]["dim"]] for name, port in outputs.items()}
    assert sizes == {"rows": ["-1", "2"], "flags": ["-1", "-1"]}


def v2(rows: list[int], **more: Any) -> dict[str, Any]:
    kinds = {"x": "INT16", "m": "BOOL", "n": "INT32", "k": "INT32"}
    given = inputs(rows, [2, 1]).items()
    tensors = [{"name": n, "datatype": kinds[n], "shape": [len(data)], "data": data} for n, data in given]
    return {"inputs": tensors, **more}


@pytest.mark.parametrize(("rows", "expected"), [NOTHING, SOME, ALL])
def test_open_inference(client: Client, rows: list[int], expected: Any) -> None:
    status, answer = client.post("/v2/models/rows/infer", v2(rows))
    flat = [value for row in expected for value in row]
    assert status == 200
    assert answer["outputs"] == [
        {"name": "rows", "datatype": "INT16", "shape": rows, "data": flat},
        {"name": "flags", "datatype": "BOOL", "shape": [2, 1], "data": [True, False]},
    ]
    about = client.get("/v2/models/rows")
    assert {port["name"]: port["shape"] for port in about["outputs"]} == {"rows": [-1, 2], "flags": [-1, -1]}


def test_open_inference_in_binary(client: Client) -> None:
    asked = [{"name": "rows", "parameters": {"binary_data": True}}]
    body = json.dumps(v2([2, 2], outputs=asked)).encode()
    response = client.send("POST", "/v2/models/rows/infer", body)
    assert response.status == 200
    length = int(response.headers["inference-header-content-length"])
    (output,) = json.loads(response.body[:length])["outputs"]
    assert (output["shape"], output["parameters"]["binary_data_size"]) == ([2, 2], 8)
    assert memoryview(response.body[length:]).cast("h").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("rows", "expected"), [NOTHING, SOME, ALL])
def test_open_inference_ranks_the_classes_of_each_row(client: Client, rows: list[int], expected: Any) -> None:
    asked = [{"name": "rows", "parameters": {"classification": 1}}]
    status, answer = client.post("/v2/models/rows/infer", v2(rows, outputs=asked))
    texts = [f"{row[1]:f}:1" for row in expected]
    assert (status, answer["outputs"]) == (
        200, [{"name": "rows", "datatype": "BYTES", "shape": [rows[0], 1], "data": texts}],
    )  # fmt: skip


LABELLED = {"name": "kinds", "fetch": "rows", "kind": "classification", "labels": ["odd", "even"], "top_k": 1}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Description:
    """The same model, each of whose rows has a score for each of two classes."""
    folder = tmp_path_factory.mktemp("labelled")
    build(folder)
    return parse_description(json.dumps(json.loads((folder / "model.json").read_text()) | {"outputs": [LABELLED]}))


@pytest.mark.parametrize(("rows", "expected"), [NOTHING, SOME, ALL])
def test_classes_of_each_row_that_is_there(labelled: Description, rows: list[int], expected: Any) -> None:
    found = (array("h", [1, 2, 3, 4, 5, 6]), array("i", rows), array("b", [0] * 4).tobytes(), array("i", [0, 0]))
    (answer,) = make_predictions(labelled, list(map(memoryview, found)), 1)
    assert answer == {"kinds": [[{"label": "even", "probability": row[1]}] for row in expected]}


def test_openapi_says_that_each_row_has_classes(labelled: Description) -> None:
    text = json.dumps(make_document([labelled], RequestLimits()))
    classes = {"type": "array", "items": {"$ref": "#/components/schemas/Class"}}
    assert json.dumps({"kinds": {"type": "array", "items": classes}}) in text


def test_the_shape_is_no_output_of_its_own(client: Client) -> None:
    status, answer = client.post("/v2/models/rows/infer", v2([1, 2], outputs=[{"name": "rows_shape"}]))
    assert (status, answer) == (400, {"error": 'there is no output "rows_shape"; choose from rows, flags'})
    assert "rows_shape" not in json.dumps(make_document([client.server.find_description(None)], RequestLimits()))


@pytest.mark.parametrize("path", ["/predict", "/v1/models/rows:predict"])
def test_more_than_is_taken_is_the_model_s_own_error(client: Client, path: str) -> None:
    before = len(client.failures)
    status, answer = client.post(path, {"inputs": inputs([4, 2], [1, 1])})
    says = "the model found too much: fetch rows has the shape [4, 2] here; at most [3, 2] is taken"
    error = {"code": "result_too_large", "message": says} if path == "/predict" else says
    assert (status, answer) == (422, {"error": error})
    assert len(client.failures) == before
    assert client.post(path, {"inputs": inputs([1, 2], [1, 1])})[0] == 200


@pytest.mark.parametrize("change", [{"name": "sizes"}, {"dtype": "int64", "bytes": 16}, {"shape": [1], "bytes": 4}])
def test_a_description_that_says_nowhere_how_large(tmp_path: Path, change: dict[str, Any]) -> None:
    build(tmp_path)
    described = json.loads((tmp_path / "model.json").read_text())
    assert [port.name for port in parse_description(json.dumps(described)).answers] == ["rows", "flags"]
    described["fetches"][1] |= change
    with pytest.raises(StartupError, match="nothing says how large rows is"):
        parse_description(json.dumps(described))
