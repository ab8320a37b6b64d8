"""The counts that the OpenAPI description allows are those that are answered: neither one more nor one less."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from PIL import Image

from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.support import abi_library, vocabulary
from tests.support.http import Client

LIMITS = RequestLimits(images=3, items=5)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    echo = abi_library.echo_description(batch=2)
    return Client.of(tmp_path_factory.mktemp("openapi"), abi_library.picture_description(batch=2), echo, limits=LIMITS)


def png() -> str:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 9).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


FILE, PIXELS = {"b64": png()}, [[[0]] * 8] * 8
V1, V2 = "/v1/models/brightness:predict", "/v2/models/brightness/infer"


def tensor(count: int) -> dict[str, Any]:
    return {"name": "image", "shape": [count, 8, 8, 1], "datatype": "UINT8", "data": [PIXELS] * count}


def files(*shape: int) -> dict[str, Any]:
    return {"name": "image", "shape": [*shape], "datatype": "BYTES", "data": [png()] * shape[0]}


CASES = {
    "pictures": ("/predict", lambda n: {"images": [png()] * n}, LIMITS.images),
    "rows of pictures": (V1, lambda n: {"instances": [FILE] * n}, LIMITS.images),
    "named rows of pictures": (V1, lambda n: {"instances": [{"image": FILE}] * n}, LIMITS.images),
    "rows of numbers": (V1, lambda n: {"instances": [PIXELS] * n}, LIMITS.items),
    "a column of pictures": (V1, lambda n: {"inputs": [FILE] * n}, LIMITS.images),
    "a column of numbers": (V1, lambda n: {"inputs": [PIXELS] * n}, LIMITS.items),
    "a named column of numbers": (V1, lambda n: {"inputs": {"image": [PIXELS] * n}}, LIMITS.items),
    "a tensor": (V2, lambda n: {"inputs": [tensor(n)]}, LIMITS.items),
    "files": (V2, lambda n: {"inputs": [files(n)]}, LIMITS.images),
    "files of shape [n, 1]": (V2, lambda n: {"inputs": [files(n, 1)]}, LIMITS.images),
}


@pytest.mark.parametrize("name", CASES)
def test_as_many_as_the_description_says_are_answered(client: Client, name: str) -> None:
    path, body, most = CASES[name]
    schema = client.get("/openapi.json")["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    allowed = Draft202012Validator(schema)
    for count in (0, 1, most, most + 1):
        sent = body(count)
        assert allowed.is_valid(sent) == (1 <= count <= most), count
        assert (client.post(path, sent)[0] == 200) == (1 <= count <= most), count


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Client:
    library = vocabulary.write_counter(tmp_path_factory.mktemp("words"))
    return Client(Server({"sized": Model(str(library))}, LIMITS))


@pytest.mark.parametrize("name", ["text", "input", "other", ""])
@pytest.mark.parametrize("value", ["a", ["a"], ["a", "b", "c"], [], 5, [["a"]]])
def test_strings_are_answered_as_the_description_says(words: Client, name: str, value: Any) -> None:
    """By the input's own name and as ``input``, one alone and several; in TensorFlow Serving also without a name."""
    body = {"inputs": {name: value} if name else value}
    for path in ("/predict", "/v1/models/sized:predict"):
        content = words.get("/openapi.json")["paths"][path]["post"]["requestBody"]["content"]
        status = words.post(path, body)[0]
        named = name in ("text", "input") or (not name and path != "/predict")
        assert (status == 200) == (named and value in ("a", ["a"], ["a", "b", "c"]))
        assert (status == 200) == Draft202012Validator(content["application/json"]["schema"]).is_valid(body)


@pytest.mark.parametrize(("path", "file"), [("/openapi.json", "openapi.json"), ("/docs", "docs.html")])
def test_a_bundle_of_an_older_build_lacks_the_description_alone(path: str, file: str, tmp_path: Path) -> None:
    client = Client.of(tmp_path, abi_library.echo_description(batch=2))
    (Path(client.server.find_model(None).folder) / file).unlink()
    answer = client.send("GET", path)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "not_described")
    assert client.send("GET", "/health").status == 200
