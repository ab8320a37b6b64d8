"""What a person tries first with curl: by a real socket and the events of a Function URL, through the real handler."""

from __future__ import annotations

import base64
import http.client
import io
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from PIL import Image

from builder.measure.local.http_server import MAX_BODY
from handler import events
from tests.support import abi_library
from tests.support.http import Client, served

CURL = {"content-type": "application/x-www-form-urlencoded"}
"""What curl sends with --data and --data-binary unless it is told otherwise."""
JSON = {"content-type": "application/json"}
NONE: dict[str, str] = {}


def picture(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 200).save(buffer, form)
    return buffer.getvalue()


PNG = base64.b64encode(picture("PNG")).decode()
NAME = "input_layer_5"


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error of our own protocol."""
        assert self.headers["content-type"] == "application/json"
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


class Function(NamedTuple):
    client: Client
    url: str

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] = NONE) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        answer = Answer(reply.status, reply.headers, reply.read())
        connection.close()
        return answer

    def post(self, path: str, value: object) -> tuple[int, Any]:
        answer = self.send("POST", path, json.dumps(value).encode(), CURL)
        return answer.status, json.loads(answer.body)


def single() -> dict[str, Any]:
    """A model of one input, by the name that Keras invented."""
    one = abi_library.echo_description(batch=2)
    for key, name in (("feeds", "in_float32"), ("fetches", "out_float32"), ("outputs", "out_float32")):
        one[key] = [port for port in one[key] if port["name"] == name]
    one["feeds"][0]["name"] = NAME
    return one


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    folder = tmp_path_factory.mktemp("first")
    client = Client.of(folder, abi_library.picture_description(), single(), abi_library.tensor_description())
    with served(client) as url:
        yield Function(client, url)


@pytest.mark.parametrize("headers", [CURL, NONE])
@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_an_image_is_known_by_its_first_bytes(function: Function, form: str, headers: dict[str, str]) -> None:
    answer = function.send("POST", "/predict", picture(form), headers)
    assert answer.status == 200, answer.body
    (level,) = json.loads(answer.body)["predictions"][0]["level"]
    assert abs(level - 200) < 2


@pytest.mark.parametrize("headers", [CURL, NONE, JSON])
def test_json_is_known_by_its_first_bytes(function: Function, headers: dict[str, str]) -> None:
    assert function.send("POST", "/", b' \n{"image": "' + PNG.encode() + b'"}', headers).status == 200


REFUSED: dict[str, tuple[bytes, dict[str, str], int, str, str]] = {
    "not JSON": (b"{bad json", JSON, 400, "not_json", r"line 1, column 2"),
    "not JSON, by curl": (b"{bad json", CURL, 400, "not_json", r"line 1, column 2"),
    "JSON that breaks off": (b'{"image": "iVBO', CURL, 400, "not_json", r"column 11"),
    "nothing": (b"", JSON, 400, "not_json", r"line 1"),
    "nested": (b"[" * 100_000, JSON, 400, "not_json", r"nested"),
    "not UTF-8": (b'{"image": "\xff"}', JSON, 400, "not_json", r"UTF-8"),
    "a long number": (b"[" + b"9" * 5_000 + b"]", JSON, 400, "not_json", r"number"),
    "not an object": (b"[1]", CURL, 400, "wrong_type", r"object"),
    "a form": (b"a=b&c=d", CURL, 415, "wrong_media_type", r"-H 'content-type: "),
    "an empty picture": (b'{"image": ""}', JSON, 400, "wrong_field", r'^"image" is empty'),
    "a blank picture": (b'{"images": [" "]}', JSON, 400, "wrong_field", r'^"images"\[0\] is empty'),
    "an empty data: URL": (b'{"image": "data:image/png;base64,"}', JSON, 400, "wrong_field", r"empty"),
    "an address": (b'{"image": "https://example.org/a.png"}', JSON, 400, "not_base64", r'address.*\{"url": '),
    "an address in capitals": (b'{"images": ["HTTP://example.org"]}', JSON, 400, "not_base64", r"address"),
    "an object of S3": (b'{"image": "s3://bucket/a.png"}', JSON, 400, "not_base64", r'address.*\{"s3": '),
    "a file name": (b'{"image": "@cat.jpg"}', JSON, 400, "not_base64", r"base64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_told_why(function: Function, name: str) -> None:
    body, headers, status, code, says = REFUSED[name]
    answer = function.send("POST", "/predict", body, headers)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert re.search(says, answer.error["message"]), answer.error
    assert function.client.failures == []


def test_the_error_of_a_body_that_is_too_large_is_json(function: Function) -> None:
    answer = function.send("POST", "/predict", bytes(MAX_BODY + 1), CURL)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    answer = function.send("POST", V1, bytes(MAX_BODY + 1), CURL)
    assert (answer.status, type(json.loads(answer.body)["error"])) == (413, str)


@pytest.mark.parametrize(
    "path", ["/nothing", "/docs/x", "/openapi.json/x", "/v1/x", "/v2/x", "/v1/models/echo:regress"]
)
def test_a_path_that_is_not_served_lists_those_that_are(function: Function, path: str) -> None:
    answer = function.send("GET", path)
    error = json.loads(answer.body)["error"]
    message = error if isinstance(error, str) else error["message"]
    assert answer.status == 404
    assert {"/predict", "/health", "/docs", "/openapi.json"} <= set(re.findall(r"/[\w.]+", message))
    assert all(name in message for name in function.client.server.models)


def test_the_paths_that_are_listed_are_served(function: Function) -> None:
    described = json.loads(function.send("GET", "/openapi.json").body)["paths"]
    assert {"/predict", "/health", "/v1/models/echo:predict", "/v2/models/echo/infer"} <= set(described)
    health = function.send("GET", "/health")
    assert (health.status, json.loads(health.body)) == (200, {"status": "healthy"})
    assert function.send("HEAD", "/health").status == 200
    for method, path, allow in (("POST", "/health", "GET"), ("POST", "/docs", "GET"), ("GET", "/predict", "POST")):
        answer = function.send(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allow)


def test_the_page_of_the_description_needs_nothing_from_elsewhere(function: Function) -> None:
    answer = function.send("GET", "/docs")
    page = answer.body.decode()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert re.findall(r"<script|<link|<img|style=|src=|https?://", page) == []
    for path in json.loads(function.send("GET", "/openapi.json").body)["paths"]:
        assert f" {path}</code>" in page


def test_a_name_in_the_page_is_text(tmp_path_factory: pytest.TempPathFactory) -> None:
    model = single()
    model["feeds"][0]["name"] = '<script>alert("1")</script>'
    client = Client.of(tmp_path_factory.mktemp("page"), model)
    page = client.send("GET", "/docs").body.decode()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
V1, V2 = "/v1/models/echo:predict", "/v2/models/echo/infer"


def tensor(name: str) -> dict[str, Any]:
    return {"name": name, "shape": [3, 2], "datatype": "FP32", "data": ROWS}


@pytest.mark.parametrize("name", ["input", NAME])
def test_a_single_input_may_be_called_input(function: Function, name: str) -> None:
    body = {"model": "echo", "inputs": {name: ROWS}}
    same = [{"out_float32": row} for row in ROWS]
    assert function.post("/predict", body)[1]["predictions"] == same
    direct = events.answer_event(body, function.client.server, function.client.call())
    assert direct["predictions"] == same
    assert function.post(V1, {"inputs": {name: ROWS}}) == (200, {"outputs": ROWS})
    assert function.post(V1, {"instances": [{name: row} for row in ROWS]}) == (200, {"predictions": ROWS})
    status, answer = function.post(V2, {"inputs": [tensor(name)]})
    assert (status, answer["outputs"][0]["data"]) == (200, [value for row in ROWS for value in row])


@pytest.mark.parametrize("name", ["Input", "input_layer", "x"])
def test_no_other_name_is_taken_for_it(function: Function, name: str) -> None:
    status, answer = function.post("/predict", {"model": "echo", "inputs": {name: ROWS}})
    assert (status, answer["error"]["code"]) == (400, "wrong_field")
    assert f'"{NAME}"' in answer["error"]["message"]
    assert '"input"' in answer["error"]["message"]
    for path, body in ((V1, {"inputs": {name: ROWS}}), (V2, {"inputs": [tensor(name)]})):
        assert function.post(path, body)[0] == 400


def test_input_is_no_name_where_there_are_several(function: Function) -> None:
    for inputs in ({"input": ROWS}, {"input": ROWS, "n": [1, 1]}):
        status, answer = function.post("/predict", {"model": "product", "inputs": inputs})
        assert (status, answer["error"]["code"]) == (400, "wrong_field")


@pytest.mark.parametrize("wrong", [[["a", 1.0]], [[1.0]], [[1e39, 1.0]], [{"b64": "@"}], [[1.0, 2.0], 5]])
def test_an_error_speaks_of_the_key_that_came(function: Function, wrong: list[Any]) -> None:
    for key, other in (("instances", "inputs"), ("inputs", "instances")):
        status, answer = function.post(V1, {key: wrong})
        assert 400 <= status < 500
        assert f'"{other}"' not in answer["error"]
        assert f'"{key}"' in answer["error"]
