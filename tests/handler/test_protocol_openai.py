"""OpenAI's embeddings: what is taken, what is refused and in which form; tests/integration has its own client."""

from __future__ import annotations

import base64
import json
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.support import abi_library, vocabulary
from tests.support.http import Client
from tests.support.vocabulary import ids

PATH = "/v1/embeddings"


def embedder(
    folder: Path,
    limits: RequestLimits = RequestLimits(characters=2_000, items=20),  # noqa: B008
    **text: Any,
) -> Client:
    """The model whose embedding of a text are the ids of its tokens; and one that takes no text."""
    description = abi_library.text_description(**text)
    description["outputs"] = [
        {"name": "vector", "fetch": "_ids", "kind": "embedding", "labels": [], "top_k": None, "format": "float32"}
    ]
    library = abi_library.build(folder / "text", description)
    vocabulary.write_prepared(folder / "text")
    product = abi_library.build(folder / "product", abi_library.tensor_description())
    return Client(Server({"sized": Model(str(library)), "product": Model(str(product))}, limits))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return embedder(tmp_path_factory.mktemp("openai"))


def vectors(client: Client, **body: Any) -> list[Any]:
    status, answer = client.post(PATH, body)
    assert status == 200, answer
    assert [(one["object"], one["index"]) for one in answer["data"]] == [
        ("embedding", number) for number in range(len(answer["data"]))
    ]
    assert (answer["object"], answer["model"]) == ("list", "sized")
    return [one["embedding"] for one in answer["data"]]


def test_a_text_several_and_tokens(client: Client) -> None:
    good, bad = ids("good", "film"), [*ids("bad"), 0]
    assert vectors(client, input="Good film", model="sized") == [good]
    assert vectors(client, input=["good film", "bad", "good FILM"]) == [good, bad, good]
    assert vectors(client, input=good) == vectors(client, input=[float(one) for one in good]) == [good]
    assert vectors(client, input=[good, ids("bad")]) == [good, bad]
    assert vectors(client, input="good film", dimensions=2, user="me") == [good[:2]]
    (text,) = vectors(client, input="good film", encoding_format="base64")
    assert array("f", base64.b64decode(text)).tolist() == good


def test_tokens_are_counted_without_padding(client: Client) -> None:
    _, answer = client.post(PATH, {"input": ["good film", "bad"]})
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert client.post(PATH, {"input": [[1], [2, 3]]})[1]["usage"]["total_tokens"] == 3


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "wrong_field"),
        ([], 400, "wrong_type"),
        ({"input": "a", "stream": True}, 400, "wrong_field"),
        ({"input": ""}, 400, "wrong_field"),
        ({"input": []}, 400, "wrong_field"),
        ({"input": [[]]}, 400, "wrong_type"),
        ({"input": None}, 400, "wrong_type"),
        ({"input": {"text": "a"}}, 400, "wrong_type"),
        ({"input": ["a", 1]}, 400, "wrong_type"),
        ({"input": [1, "a"]}, 400, "wrong_type"),
        ({"input": [[1], 2]}, 400, "wrong_type"),
        ({"input": [True]}, 400, "wrong_type"),
        ({"input": [-1]}, 400, "wrong_type"),
        ({"input": [1.5]}, 400, "wrong_type"),
        ({"input": [1e300]}, 400, "wrong_type"),
        ({"input": [2**63]}, 400, "wrong_type"),
        ({"input": [1] * 9}, 422, "text_too_long"),
        ({"input": ["a"] * 21}, 413, "too_many_images"),
        ({"input": [[1]] * 21}, 413, "too_many_images"),
        ({"input": "a" * 2_001}, 413, "too_large"),
        ({"input": "\ud800"}, 422, "not_text"),
        ({"input": "a", "model": "gpt"}, 404, "model_not_found"),
        ({"input": "a", "model": 5}, 400, "wrong_type"),
        ({"input": "a", "model": "product"}, 400, "wrong_field"),
        ({"input": "a", "dimensions": 9}, 400, "wrong_field"),
        ({"input": "a", "dimensions": 0}, 400, "wrong_field"),
        ({"input": "a", "dimensions": True}, 400, "wrong_field"),
        ({"input": "a", "encoding_format": "int8"}, 400, "wrong_field"),
        ({"input": "a", "encoding_format": ["float"]}, 400, "wrong_field"),
    ],
)
def test_what_is_refused(client: Client, body: Any, status: int, code: str) -> None:
    found, answer = client.post(PATH, body)
    error = answer["error"]
    assert (found, error["code"], error["type"], error["param"]) == (status, code, "invalid_request_error", None)
    assert error["message"]
    assert not client.failures
    assert vectors(client, input="bad") == [[*ids("bad"), 0]]


def test_other_methods_and_paths(client: Client) -> None:
    response = client.send("GET", PATH)
    assert (response.status, response.headers["allow"]) == (405, "POST")
    assert json.loads(response.body)["error"]["type"] == "invalid_request_error"
    assert client.send("POST", f"{PATH}/x").status == 404
    assert client.get("/v1/models/sized")["model_version_status"][0]["state"] == "AVAILABLE"


def test_the_functions_own_failure_is_the_servers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(Server, "run_inference", fail)
    status, answer = client.post(PATH, {"input": "a"})
    assert (status, answer["error"]["type"], answer["error"]["code"]) == (500, "server_error", "internal")
    assert "inside" not in answer["error"]["message"]
    assert len(client.failures) == 1
    client.failures.clear()


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A model without a tokenizer: its embedding of a text is the number of its bytes."""
    library = vocabulary.write_counter(tmp_path_factory.mktemp("words"))
    return Client(Server({"sized": Model(str(library))}, RequestLimits(characters=2_000, items=20)))


def test_a_model_that_takes_words_embeds_them(words: Client) -> None:
    assert vectors(words, input="caf\u00e9") == [[5]]
    assert vectors(words, input=["a", "bb", "ccc", "天"]) == [[1], [2], [3], [3]]
    assert array("f", base64.b64decode(vectors(words, input="ab", encoding_format="base64")[0])).tolist() == [2]
    for wrong, status in (([1, 2], 400), ([[1]], 400), ([], 400), ("\ud800", 422), (["a"] * 21, 413)):
        assert words.post(PATH, {"input": wrong})[0] == status
    assert not words.failures
    schema = words.get("/openapi.json")["paths"][PATH]["post"]["requestBody"]["content"]["application/json"]["schema"]
    taken = Draft202012Validator(schema)
    assert [taken.is_valid({"input": value}) for value in ("a", ["a", "b"], [1], [[1]])] == [True, True, False, False]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9), st.lists, max_leaves=9))
def test_whatever_is_sent_is_answered_or_refused(client: Client, value: Any) -> None:
    status, answer = client.post(PATH, {"input": value})
    assert status == 200 or answer["error"]["type"] == "invalid_request_error"
    assert not client.failures


def test_openapi_has_it_where_a_model_does(client: Client, tmp_path: Path) -> None:
    operation = client.get("/openapi.json")["paths"][PATH]["post"]
    body = Draft202012Validator(operation["requestBody"]["content"]["application/json"]["schema"])
    answer = Draft202012Validator(operation["responses"]["200"]["content"]["application/json"]["schema"])
    for request in ({"input": "a"}, {"input": ["a"], "model": "sized", "encoding_format": "base64"}, {"input": [[1]]}):
        body.validate(request)
        answer.validate(client.post(PATH, request)[1])
    for wrong in ({"input": "a", "model": "product"}, {"input": [1] * 9}, {"input": [2**63]}, {"input": [[1]] * 21}):
        assert list(body.iter_errors(wrong))
    alone = Client.of(tmp_path, abi_library.tensor_description())
    assert PATH not in alone.get("/openapi.json")["paths"]


def test_texts_get_a_prompt_and_tokens_do_not(client: Client, tmp_path: Path) -> None:
    prompted = embedder(tmp_path, prompts={"query": "not ", "document": "very "}, opening="very ")
    assert vectors(prompted, input=["film", "bad"]) == [ids("very", "film"), ids("very", "bad")]
    assert vectors(prompted, input="film", prompt="query") == [ids("not", "film")]
    assert vectors(prompted, input=ids("film", "film")) == [ids("film", "film")]
    for asked, wrong in ((prompted, "passage"), (client, "query")):
        status, answer = asked.post(PATH, {"input": "film", "prompt": wrong})
        assert (status, answer["error"]["code"]) == (422, "unknown_prompt")


def test_other_requests_import_nothing_of_it(client: Client) -> None:
    sys.modules.pop("handler.protocols.openai", None)
    assert client.post("/predict", {"text": "bad"})[0] == 200
    assert "handler.protocols.openai" not in sys.modules
