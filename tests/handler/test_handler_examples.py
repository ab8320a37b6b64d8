"""Serialized tf.Examples: what a caller may send, what becomes of it, and what is refused with a code.

That the function reads what TensorFlow reads is tested in tests/integration/test_examples.py.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from builder.package import openapi
from handler.budget import RequestLimits
from handler.description import Description, parse_description
from handler.errors import HandlerError, NotTextError, StartupError, TooLargeError, WrongExampleError
from handler.inputs.example import Feature, make_request, parse_example
from handler.protocols.open_inference import LENGTH
from tests.support import abi_library
from tests.support.example_protos import encode_proto, random_protos
from tests.support.http import Client

FEATURES = (
    Feature("level", "float32", 2),
    Feature("day", "int64", 1, struct.pack("<q", 7)),
    Feature("tags", "string", 3, (b"a", b"b", b"c")),
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client.of(tmp_path_factory.mktemp("examples"), abi_library.example_description())


def example(level: Sequence[float] = (0.5, -1), day: Sequence[int] | None = None) -> bytes:
    return encode_proto([("level", "float32", level), *([("day", "int64", day)] if day is not None else [])])


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


EXAMPLES = [example(), example((2, 3), [-9]), example((4, 5), [2**40])]
LEVELS, DAYS = [[0.5, -1], [2, 3], [4, 5]], [7, -9, 2**40]


def test_our_own_protocol(client: Client) -> None:
    status, answer = client.post("/predict", {"examples": list(map(coded, EXAMPLES))})
    assert status == 200
    wanted = [{"same_level": level, "same_day": day} for level, day in zip(LEVELS, DAYS, strict=True)]
    assert answer["predictions"] == wanted
    plain = client.post("/predict", {"inputs": {"level": LEVELS, "day": DAYS}})
    assert plain[1]["predictions"] == wanted


@pytest.mark.parametrize("named", [True, False])
def test_tensorflow_serving(client: Client, named: bool) -> None:
    values = [{"b64": coded(one)} for one in EXAMPLES]
    rows = [{"examples": one} for one in values] if named else values
    status, answer = client.post("/v1/models/echo:predict", {"instances": rows})
    assert (status, answer["predictions"][1]) == (200, {"same_level": [2, 3], "same_day": -9})
    status, answer = client.post("/v1/models/echo:predict", {"inputs": {"examples": values} if named else values})
    assert (status, answer["outputs"]) == (200, {"same_level": LEVELS, "same_day": DAYS})
    rows = [{"level": level, "day": day} for level, day in zip(LEVELS, DAYS, strict=True)]
    assert client.post("/v1/models/echo:predict", {"instances": rows})[1]["predictions"][1]["same_day"] == -9


@pytest.mark.parametrize("shape", [[3], [3, 1]])
def test_open_inference(client: Client, shape: list[int]) -> None:
    one: dict[str, Any] = {"name": "examples", "datatype": "BYTES", "shape": shape}
    status, answer = client.post("/v2/models/echo/infer", {"inputs": [one | {"data": list(map(coded, EXAMPLES))}]})
    assert (status, answer["outputs"][1]["data"]) == (200, DAYS)
    blob = b"".join(struct.pack("<I", len(data)) + data for data in EXAMPLES)
    head = json.dumps({"inputs": [one | {"parameters": {"binary_data_size": len(blob)}}]}).encode()
    response = client.send("POST", "/v2/models/echo/infer", head + blob, {LENGTH: str(len(head))})
    assert json.loads(response.body)["outputs"][1]["data"] == DAYS


def test_the_inputs_are_the_features(client: Client) -> None:
    assert [port["name"] for port in client.get("/v2/models/echo")["inputs"]] == ["level", "day"]
    document = json.dumps(openapi.make_document([client.server.find_description(None)], RequestLimits()))
    assert '"examples"' in document


BAD: dict[str, tuple[Any, str]] = {
    "no list": ("abc", "wrong_type"),
    "none": ([], "wrong_field"),
    "no base64": (["?"], "not_base64"),
    "a number": ([5], "wrong_type"),
    "no example": ([coded(b"\xff")], "wrong_example"),
    "nothing in it": ([""], "wrong_example"),
    "too many": ([""] * 5000, "too_many_images"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused_has_a_code(client: Client, case: str) -> None:
    value, code = BAD[case]
    status, answer = client.post("/predict", {"examples": value})
    assert (status // 100, answer["error"]["code"]) == (4, code)
    assert client.post("/predict", {"examples": [coded(example())]})[0] == 200
    assert client.failures == []


def test_examples_and_inputs_exclude_each_other(client: Client) -> None:
    status, answer = client.post("/predict", {"examples": [""], "inputs": {}})
    assert (status, answer["error"]["code"]) == (400, "wrong_field")


def test_a_message_names_the_example_and_the_feature(client: Client) -> None:
    wrong = encode_proto([("level", "int64", [1, 2])])
    _, answer = client.post("/predict", {"examples": [coded(example()), coded(wrong)]})
    assert answer["error"]["message"] == (
        '"examples"[1]: the feature "level" is int64_list; the model takes float_list'
    )


def test_what_may_be_missing_has_its_default() -> None:
    assert parse_example(example(), FEATURES) == [struct.pack("<2f", 0.5, -1), struct.pack("<q", 7), (b"a", b"b", b"c")]


def test_the_last_of_a_key_counts_unless_it_is_empty() -> None:
    twice = encode_proto([("level", "float32", [1, 2]), ("level", "float32", [3, 4]), ("level", "float32", None)])
    assert parse_example(twice, FEATURES)[0] == struct.pack("<2f", 3, 4)


def of_level(feature: bytes) -> bytes:
    entry = b"\x0a\x05level\x12" + bytes([len(feature)]) + feature
    return b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (encode_proto([]), "missing"),
        (b"", "missing"),
        (encode_proto([("level", "float32", [])]), "must have 2 values, not 0"),
        (encode_proto([("level", "float32", [1])]), "must have 2 values, not 1"),
        (encode_proto([("level", "float32", [1, 2, 3])]), "must have 2 values, not more"),
        (encode_proto([("level", "float32", [1, 2, 3])], packed=False), "must have 2 values, not more"),
        (encode_proto([("level", "string", [b"", b""])]), "is bytes_list"),
        (example(day=[1, 2]), '"day" must have 1 value, not more'),
        (example(day=[300, 300]), '"day" must have 1 value, not more'),
        (
            encode_proto([("level", "float32", [1, 2]), ("tags", "string", [b"x"] * 4)]),
            '"tags" must have 3 values, not more',
        ),
        (of_level(b"\x12\x05\x0a\x03abc"), '"level" is damaged'),
        (of_level(b"\x12\x04\x0dabc"), '"level" is damaged'),
        (of_level(b"\x12\x0a\x0a\x08abcdefgh\x12\x00"), '"level" is damaged'),
        (of_level(b"\x12\x0c\x0a\x04abcd\x0a\x04abcd"), '"level" is damaged'),
        (of_level(b"\x22\x00"), "no tf.Example"),
        (of_level(b"\x00\x00") + example(), "no tf.Example"),
        (of_level(b"\x12\x7f\x0a\x08abcdefgh"), '"level" is damaged'),
        (example()[:-1], "no tf.Example"),
        (example() + b"\x08\x01", "no tf.Example"),
        (b"\x0a", "no tf.Example"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "no tf.Example"),
        (b"\x0a\x02\x0a\x00", "no tf.Example"),
        (b"\x0a\x06\x0a\x04\x0a\x00\x0a\x00", "no tf.Example"),
    ],
)
def test_what_is_no_such_example_is_refused(proto: bytes, message: str) -> None:
    with pytest.raises(WrongExampleError, match=message):
        parse_example(proto, FEATURES)


def test_any_way_of_writing_numbers() -> None:
    ints = (Feature("n", "int64", 4),)
    values = [0, -1, 2**63 - 1, 300]
    for packed in (True, False):
        assert parse_example(encode_proto([("n", "int64", values)], packed=packed), ints) == [
            struct.pack("<4q", *values)
        ]
    for proto in random_protos(FEATURES, 50):
        assert [len(value) for value in parse_example(proto, FEATURES)] == [8, 8, 3]


def described(**changes: Any) -> Description:
    description = abi_library.example_description()
    description["strings"] = [{"name": "tags", "shape": [2, 3], "feeds": ["ids"]}]
    description["feeds"].append({"name": "ids", "dtype": "int64", "shape": [2, 3], "bytes": 48})
    description["examples"]["features"].append({"key": "tags", "name": "tags", "default": ["a", "b", "ä"]} | changes)
    return parse_description(json.dumps(description))


def test_strings_stand_beside_numbers_until_they_are_some() -> None:
    second = encode_proto([("level", "float32", [1, 2]), ("tags", "string", [b"x", b"", b"z"])])
    request = make_request([example(), second], described(), RequestLimits())
    assert request.strings == {"tags": (b"a", b"b", "ä".encode(), b"x", b"", b"z")}
    assert request.inputs["day"] == struct.pack("<2q", 7, 7)


@pytest.mark.parametrize(
    ("text", "limits", "error"),
    [(b"\xff", RequestLimits(), NotTextError), (b"abcd", RequestLimits(characters=3), TooLargeError)],
)
def test_strings_that_the_function_does_not_take(text: bytes, limits: RequestLimits, error: type[HandlerError]) -> None:
    proto = encode_proto([("level", "float32", [1, 2]), ("tags", "string", [text, b"", b""])])
    with pytest.raises(error, match='the feature "tags"'):
        make_request([proto], described(), limits)


def test_strings_that_are_too_many_together() -> None:
    proto = encode_proto([("level", "float32", [1, 2]), ("tags", "string", [b"abc"] * 3)])
    with pytest.raises(TooLargeError, match="the strings have 18 bytes"):
        make_request([proto] * 2, described(), RequestLimits(characters=3))


def test_a_description_of_other_inputs_stops_the_function() -> None:
    with pytest.raises(StartupError, match="do not have all"):
        described(name="other")


def test_more_than_there_is_memory_for() -> None:
    with pytest.raises(HandlerError) as refused:
        make_request([b""] * 400, described(), RequestLimits(memory=10_000))
    assert refused.value.code == "over_budget"
