"""From texts to the ids that a model takes, and what is refused, in a real library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from handler.budget import RequestLimits
from handler.errors import StartupError
from handler.model import Model
from handler.request import Request
from handler.server import Server
from tests.support import abi_library, vocabulary
from tests.support.http import Client
from tests.support.vocabulary import ids

LIMITS = RequestLimits(characters=2_000, items=20)


def client_of(folder: Path, truncate: bool = True, **options: Any) -> Client:
    library = abi_library.build(folder, abi_library.text_description(**options))
    vocabulary.write_prepared(folder, truncate=truncate, pairs=options.get("pairs", False))
    model = Model(str(library))
    return Client(Server({model.description.name: model}, LIMITS))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return client_of(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The same, which cuts nothing off."""
    return client_of(tmp_path_factory.mktemp("strict"), truncate=False)


def answers(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    status, answer = client.post("/predict", body)
    assert status == 200, answer
    found: list[dict[str, Any]] = answer["predictions"]
    return found


def refused(client: Client, body: Any) -> tuple[int, str, str]:
    status, answer = client.post("/predict", body)
    assert not client.failures
    return status, answer["error"]["code"], answer["error"]["message"]


def test_a_text_is_filled_up_to_the_shortest_length_that_holds_it(client: Client) -> None:
    (short,) = answers(client, {"text": "Good FILM"})
    assert short == {"_ids": ids("good", "film"), "mask": [1, 1, 1, 1]}
    (longer,) = answers(client, {"text": "unknown plays"})
    wanted = ids("un", "##known", "play", "##s")
    assert longer == {"_ids": [*wanted, 0, 0], "mask": [1] * 6 + [0, 0]}


def test_texts_of_one_request_have_one_length_where_their_answers_do(client: Client) -> None:
    texts = ["bad", "good film!", "not very very very very very bad", "天"]
    found = answers(client, {"texts": texts})
    wanted = [ids("bad"), ids("good", "film", "!"), ids("not", *["very"] * 5), ids("天")]
    assert [item["_ids"] for item in found] == [row + [0] * (8 - len(row)) for row in wanted]


def test_what_is_too_long_is_cut_off_or_refused(client: Client, strict: Client) -> None:
    fits, long = "very " * 6, "very " * 7
    (cut,) = answers(client, {"text": long})
    assert cut["_ids"] == ids(*["very"] * 6)
    assert answers(strict, {"text": fits}) == [cut]
    status, code, message = refused(strict, {"texts": [fits, long]})
    assert (status, code) == (422, "text_too_long")
    assert message == "text 2 has more than the 8 tokens that the model takes"


def test_tensors_are_taken_as_well(client: Client) -> None:
    inputs = {"input_ids": [[2, 5, 7, 3]], "attention_mask": [[1, 1, 1, 1]]}
    assert answers(client, {"inputs": inputs}) == answers(client, {"text": "good film"})


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"text": 3}, 400, "wrong_type", '"text" must be a string, not a number'),
        ({"text": None}, 400, "wrong_type", '"text" must be a string, not null'),
        ({"text": ["a"]}, 400, "wrong_type", '"text" must be a string, not a list'),
        ({"text": ""}, 400, "wrong_field", '"text" is empty; a text is needed'),
        ({"texts": []}, 400, "wrong_field", '"texts" is empty'),
        ({"texts": "a"}, 400, "wrong_type", '"texts" must be a list of strings; a single text goes into "text"'),
        ({"texts": ["a", ""]}, 400, "wrong_field", '"texts"[1] is empty; a text is needed'),
        ({"texts": ["a"] * 21}, 413, "too_many_images", '"texts" has 21; at most 20 are allowed at a time'),
        ({"text": "a" * 2_001}, 413, "too_large", '"text" has 2,001 characters; at most 2,000 are allowed'),
        ({"texts": ["a" * 1_601] * 5}, 413, "too_large", '"texts" has 8,005 characters; at most 8,000 are allowed'),
        ({"text": "a", "texts": ["a"]}, 400, "wrong_field", '"text" and "texts" exclude each other'),
        ({"text": "a", "inputs": {"input_ids": []}}, 400, "wrong_field", '"input_ids" is not known'),
        ({"image": "a"}, 400, "wrong_field", '"image" is not known here; send "text" or "texts"'),
        ({}, 400, "wrong_field", 'the request is empty; send "text" or "texts"'),
    ],
)
def test_what_is_no_text_is_refused(client: Client, body: Any, status: int, code: str, message: str) -> None:
    found = refused(client, body)
    assert found[:2] == (status, code)
    assert found[2].startswith(message)


def test_half_of_a_surrogate_pair_is_refused(client: Client) -> None:
    response = client.send("POST", "/predict", b'{"text": "a \\ud83d b"}', {"content-type": "application/json"})
    assert (response.status, json.loads(response.body)["error"]["code"]) == (422, "not_text")


def test_no_more_texts_than_are_answered_apart(tmp_path: Path) -> None:
    description = abi_library.text_description(batch=1, lengths=(8,))
    description["fetches"][1] |= {"shape": [8], "name": "mask"}  # not of items
    library = abi_library.build(tmp_path, description)
    vocabulary.write_prepared(tmp_path)
    client = Client(Server({"sized": Model(str(library))}, LIMITS))
    assert answers(client, {"text": "bad"})[0]["mask"] == [1, 1, 1, 0, 0, 0, 0, 0]
    status, code, message = refused(client, {"texts": ["a", "b"]})
    assert (status, code, message) == (
        413, "too_many_images", '"texts" has 2; this model takes at most 1 at a time',
    )  # fmt: skip


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=7))
def test_any_texts_are_answered_one_by_one_as_together(client: Client, texts: list[str]) -> None:
    found = answers(client, {"texts": texts})
    assert not client.failures
    for text, item in zip(texts, found, strict=True):
        (alone,) = answers(client, {"text": text})
        count = sum(alone["mask"])
        assert item["_ids"][:count] == alone["_ids"][:count]
        assert sum(item["mask"]) == count
        assert not any(item["_ids"][count:])


def test_tokens_are_counted(client: Client) -> None:
    server = client.server
    request = Request((), {}, texts=("good film", "bad"))
    assert server.run_inference(request, client.call()).tokens == 4 + 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"wordpiece", "Expecting value"),
        (b'{"kind": "os", "length": null, "truncate": true, "pad": 0}\n', "of the unknown kind os"),
        (b'{"kind": "wordpiece"}\n', "special"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, why: str) -> None:
    library = abi_library.build(tmp_path, abi_library.text_description())
    if content is not None:
        (tmp_path / "model.text").write_bytes(content)
    with pytest.raises(StartupError, match=rf"model\.text cannot be read \(.*{why}"):
        Model(str(library))


def test_every_kind_of_text_that_wordpiece_tells_apart(strict: Client) -> None:
    for text, pieces in {
        "PLAYED": ["play", "##ed"],
        "É": ["e"],  # accents go before letters are looked up
        "good\0film\u200b": ["good", "##f", "##i", "##l", "##m"],
        "天good": ["天", "good"],
        "good.bad": ["good", ".", "bad"],
        "[SEP] [sep]": ["[SEP]", "[UNK]", "s", "##e", "##p", "[UNK]"],
        "a1": ["[UNK]"],
        "x" * 101: ["[UNK]"],
        "\u0301 \n\t": [],
    }.items():
        (found,) = answers(strict, {"text": text})
        assert found["_ids"][: sum(found["mask"])] == ids(*pieces), text


ONE = [{"_ids": ids("good", "film"), "mask": [1, 1, 1, 1]}]


def test_a_body_may_be_the_text(client: Client) -> None:
    for media in ("text/plain", "text/plain; charset=utf-8"):
        for body in (b"good film", b"\xef\xbb\xbfgood film"):
            response = client.send("POST", "/predict", body, {"content-type": media})
            assert response.status == 200
            assert json.loads(response.body)["predictions"] == ONE


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "wrong_field"),
        (b"a\xff", 422, "not_text"),
        (b"\xed\xa0\x80", 422, "not_text"),
        (b"a" * 2_001, 413, "too_large"),
    ],
)
def test_a_body_that_is_no_text_is_refused(client: Client, body: bytes, status: int, code: str) -> None:
    response = client.send("POST", "/predict", body, {"content-type": "text/plain"})
    assert (response.status, json.loads(response.body)["error"]["code"]) == (status, code)


def test_another_type_of_body_is_refused(client: Client) -> None:
    response = client.send("POST", "/predict", b"a", {"content-type": "image/png"})
    assert response.status == 415
    assert "application/json, text/plain" in json.loads(response.body)["error"]["message"]


@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_open_inference_takes_bytes(client: Client, shape: list[int]) -> None:
    values = ["good film", "天"] if len(shape) == 1 else [["good film"], ["天"]]
    tensor = {"name": "input_ids", "datatype": "BYTES", "shape": shape, "data": values}
    status, answer = client.post("/v2/models/sized/infer", {"inputs": [tensor]})
    assert status == 200
    found = {output["name"]: output for output in answer["outputs"]}
    assert found["mask"]["shape"] == [2, 4]
    assert found["_ids"]["data"] == [*ids("good", "film"), *ids("天"), 0]


def test_open_inference_takes_them_as_binary_data(client: Client) -> None:
    data = b"".join(len(one).to_bytes(4, "little") + one for one in (b"good film", "天".encode()))
    tensor = {"name": "input_ids", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {"inference-header-content-length": str(len(head))}
    response = client.send("POST", "/v2/models/sized/infer", head + data, headers)
    assert response.status == 200
    assert json.loads(response.body)["outputs"][0]["data"] == [*ids("good", "film"), *ids("天"), 0]
    broken = data.replace("天".encode(), b"\xff\xff\xff")
    response = client.send("POST", "/v2/models/sized/infer", head + broken, headers)
    assert (response.status, json.loads(response.body)["error"]) == (422, '"input_ids"[1] is not UTF-8')


def test_open_inference_refuses_what_is_no_text(client: Client) -> None:
    for change, message in (
        ({"data": [1, 2]}, '"input_ids"[0] must be a string, not a number'),
        ({"data": ["a"]}, '"input_ids" has the shape [2], but not as many elements'),
        ({"data": "ab"}, '"input_ids" must have its data as a list of strings'),
        (
            {"shape": [0], "data": []},
            '"input_ids" must have the shape [n] where it holds BYTES, one image or text each',
        ),
        ({"shape": [21], "data": ["a"] * 21}, '"input_ids" has 21 elements; at most 20 are allowed at a time'),
    ):
        tensor = {"name": "input_ids", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]} | change
        status, answer = client.post("/v2/models/sized/infer", {"inputs": [tensor]})
        assert (status >= 400, answer) == (True, {"error": message})


@pytest.mark.parametrize(
    "body",
    [
        {"instances": ["good film"]},
        {"instances": [{"input_ids": "good film"}]},
        {"inputs": ["good film"]},
        {"inputs": "good film"},
        {"inputs": {"input_ids": ["good film"]}},
    ],
)
def test_tensorflow_serving_takes_strings(client: Client, body: dict[str, Any]) -> None:
    status, answer = client.post("/v1/models/sized:predict", body)
    assert status == 200, answer
    if "instances" in body:
        assert answer["predictions"] == ONE
    else:
        assert answer["outputs"] == {key: [value] for key, value in ONE[0].items()}


def test_tensorflow_serving_refuses_what_is_no_text(client: Client) -> None:
    for body, message in (
        ({"instances": ["a", 3]}, '"instances": "input_ids"[1] must be a string, not a number'),
        ({"instances": ["a"] * 21}, '"input_ids" has 21; at most 20 are allowed at a time'),
        ({"inputs": {"input_ids": [""]}}, '"inputs": "input_ids"[0] is empty; a text is needed'),
    ):
        status, answer = client.post("/v1/models/sized:predict", body)
        assert (status >= 400, answer) == (True, {"error": message})


def test_the_page_says_that_a_text_is_wanted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLDFORGE_PLAYGROUND", "on")
    assert b'"text": true' in client.send("GET", "/").body


def test_every_body_that_is_described_is_one_that_is_taken(client: Client) -> None:
    document = client.get("/openapi.json")

    def valid(path: str, body: Any, media: str = "application/json") -> bool:
        schema = document["paths"][path]["post"]["requestBody"]["content"][media]["schema"]
        return bool(Draft202012Validator({**schema, "components": document["components"]}).is_valid(body))

    assert valid("/predict", {"text": "a"})
    assert valid("/predict", {"texts": ["a", "b"]})
    assert not valid("/predict", {"texts": ["a"] * 21})
    assert not valid("/predict", {"text": ""})
    assert valid("/predict", "a text", "text/plain")
    tensor = {"name": "input_ids", "datatype": "BYTES", "shape": [1], "data": ["a"]}
    assert valid("/v2/models/sized/infer", {"inputs": [tensor]})
    assert valid("/v1/models/sized:predict", {"instances": ["a"]})
    assert valid("/v1/models/sized:predict", {"inputs": {"input_ids": ["a"]}})
    assert not valid("/v1/models/sized:predict", {"inputs": {"input_ids": [""]}})


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return client_of(tmp_path_factory.mktemp("prompted"), prompts={"query": "not ", "plain": ""}, opening="very ")


def test_a_request_names_a_prompt_or_gets_the_usual_one(prompted: Client) -> None:
    for asked, pieces in (({}, ["very"]), ({"prompt": "query"}, ["not"]), ({"prompt": "plain"}, [])):
        wanted = ids(*pieces, "film")
        assert answers(prompted, {"text": "film"} | asked)[0]["_ids"][: len(wanted)] == wanted
        assert [item["_ids"] for item in answers(prompted, {"texts": ["film", "film"]} | asked)] == [
            wanted + [0] * (4 - len(wanted))
        ] * 2
        response = prompted.send("POST", "/predict", b"film", {"content-type": "text/plain"}, **asked)
        assert json.loads(response.body)["predictions"][0]["_ids"][: len(wanted)] == wanted
    tensor = {"name": "input_ids", "datatype": "BYTES", "shape": [1], "data": ["film"]}
    assert prompted.post("/v2/models/sized/infer", {"inputs": [tensor]})[1]["outputs"][0]["data"] == ids("very", "film")
    assert prompted.post("/v1/models/sized:predict", {"inputs": ["film"]})[1]["outputs"]["_ids"] == [
        ids("very", "film")
    ]


def test_a_prompt_that_the_model_does_not_have_is_refused(client: Client, prompted: Client) -> None:
    assert refused(prompted, {"text": "film", "prompt": "document"}) == (
        422, "unknown_prompt", 'prompt must be one of "query", "plain"',
    )  # fmt: skip
    assert refused(client, {"text": "film", "prompt": "query"}) == (
        422, "unknown_prompt", "prompt must be left out, as this model has none",
    )  # fmt: skip
    assert refused(prompted, {"text": "film", "prompt": 3})[:2] == (400, "wrong_field")


def test_the_description_has_the_names_of_prompts(client: Client, prompted: Client) -> None:
    def valid(client: Client, body: Any) -> bool:
        document = client.get("/openapi.json")
        schema = document["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        return bool(Draft202012Validator({**schema, "components": document["components"]}).is_valid(body))

    assert valid(prompted, {"text": "a", "prompt": "query"})
    assert not valid(prompted, {"text": "a", "prompt": "document"})
    assert not valid(client, {"text": "a", "prompt": "query"})


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A model of pairs, which gives back the ids and the types of their tokens."""
    folder = tmp_path_factory.mktemp("paired")
    return client_of(folder, pairs=True, mask="", types="attention_mask", opening="very ", prompts={"query": "not "})


def joined(first: list[int], second: list[int], size: int) -> dict[str, list[int]]:
    """The answer to a pair of texts with these ids, of ``size`` tokens."""
    fill = [0] * (size - len(first) - len(second) + 1)
    return {"_ids": [*first, *second[1:], *fill], "mask": [0] * len(first) + [1] * (len(second) - 1) + fill}


def test_pairs_of_texts(paired: Client) -> None:
    film = ids("very", "film")
    bad, good = joined(film, ids("bad"), 8), joined(film, ids("good", "!"), 8)
    assert answers(paired, {"text": "film", "text_pair": "bad"}) == [bad]
    assert answers(paired, {"text": "film", "text_pairs": ["bad", "good!", "bad"]}) == [bad, good, bad]
    two = {"texts": ["film", "bad"], "text_pairs": ["good!", "bad"]}
    assert answers(paired, two) == [good, joined(ids("very", "bad"), ids("bad"), 8)]
    asked = {"text": "film", "text_pair": "bad", "prompt": "query"}
    assert answers(paired, asked) == [joined(ids("not", "film"), ids("bad"), 8)]


def test_the_longer_text_of_a_pair_is_cut_off(paired: Client) -> None:
    few, many = ids("very", "film"), "bad " * 9
    assert answers(paired, {"text": "film", "text_pair": many}) == [joined(few, ids(*["bad"] * 3), 8)]
    assert answers(paired, {"text": "film " * 9, "text_pair": "bad"})[0] == joined(
        ids("very", "film", "film", "film"), ids("bad"), 8
    )
    assert answers(paired, {"text": many, "text_pair": many}) == [
        joined(ids("very", "bad", "bad"), ids("bad", "bad"), 8)
    ]
    assert answers(paired, {"text": "bad " * 8, "text_pair": many}) == [
        joined(ids("very", "bad"), ids(*["bad"] * 3), 8)
    ]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"text": "a"},
            "wrong_field",
            'this model takes pairs of texts; send "text_pair" or "text_pairs" beside "text"',
        ),
        (
            {"texts": ["a"]},
            "wrong_field",
            'this model takes pairs of texts; send "text_pair" or "text_pairs" beside "texts"',
        ),
        ({"text": "a", "text_pair": "b", "text_pairs": ["b"]}, "wrong_field", "this model takes pairs of texts"),
        ({"text_pair": "b"}, "wrong_field", '"text_pair" is not known here; send "text" or "texts"'),
        ({"texts": ["a"], "text_pair": "b"}, "wrong_field", '"text_pair" is not known here'),
        (
            {"texts": ["a"], "text_pairs": ["b", "c"]},
            "wrong_field",
            '"texts" has 1 and "text_pairs" has 2; send as many',
        ),
        ({"text": "a", "text_pair": ["b"]}, "wrong_type", '"text_pair" must be a string, not a list'),
        (
            {"text": "a", "text_pairs": "b"},
            "wrong_type",
            '"text_pairs" must be a list of strings; a single text goes into',
        ),
        ({"text": "a", "text_pairs": []}, "wrong_field", '"text_pairs" is empty'),
        ({"text": "a", "text_pairs": ["b"] * 21}, "too_many_images", '"text_pairs" has 21; at most 20 are allowed'),
        ({"text": "a" * 1_000, "text_pairs": ["b"] * 9}, "too_large", "at most 2,000 characters are allowed in a text"),
    ],
)
def test_what_is_no_pair_is_refused(paired: Client, body: Any, code: str, message: str) -> None:
    status, found, said = refused(paired, body)
    assert (400 <= status < 500, found) == (True, code)
    assert said.startswith(message)


def test_a_model_of_single_texts_takes_no_pair(client: Client) -> None:
    assert refused(client, {"text": "a", "text_pair": "b"})[2].startswith('"text_pair" is not known here')


def test_other_protocols_take_the_ids_of_a_pair(paired: Client) -> None:
    assert paired.send("POST", "/predict", b"film", {"content-type": "text/plain"}).status == 415
    tensor = {"name": "input_ids", "datatype": "BYTES", "shape": [1], "data": ["film"]}
    assert paired.post("/v2/models/sized/infer", {"inputs": [tensor]})[0] == 400
    inputs = {"input_ids": [[2, 7, 3, 0]], "attention_mask": [[0, 0, 1, 0]]}
    status, answer = paired.post("/v1/models/sized:predict", {"inputs": inputs})
    assert (status, answer["outputs"]["mask"]) == (200, [[0, 0, 1, 0]])


def test_the_description_has_pairs(paired: Client) -> None:
    document = paired.get("/openapi.json")
    content = document["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert [*content] == ["application/json"]
    schema = Draft202012Validator({**content["application/json"]["schema"], "components": document["components"]})
    one, two = {"text": "a"}, {"texts": ["a", "b"]}
    for body in (one | {"text_pair": "b"}, one | {"text_pairs": ["b", "c"]}, two | {"text_pairs": ["b", "c"]}):
        assert schema.is_valid(body)
    for body in (one, two, two | {"text_pair": "b"}, {"text_pair": "b"}):
        assert not schema.is_valid(body)
