"""Texts that are none, too long, too many or damaged, by every protocol and event: a code, and the next one works."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from handler.budget import RequestLimits
from tests.support import abi_library, vocabulary
from tests.support.everywhere import BYTES, TENSORS, WAYS, There, binary, function, predictions
from tests.support.everywhere import RefusedError as Refused

GOOD = "good film"
MODELS = ("tokens", "words")
CASES: dict[str, tuple[Any, str]] = {
    "a number": (5, "wrong_type"),
    "null": (None, "wrong_type"),
    "a list": (["good"], "wrong_type"),
    "an object": ({"it": "good"}, "wrong_type"),
    "empty": ("", "wrong_field"),
    "half of a surrogate pair": ("good \ud83d film", "not_text"),
    "more tokens than the model takes": ("very " * 50_000, "text_too_long"),
    "10 MB": ("a" * 10_000_000, "too_large"),
}
ALONE = ("one by one", "text/plain", "S3, a text", "Step Functions", "batch")
"""Ways that send one text at a time."""


@pytest.fixture(scope="module", params=MODELS)
def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    """The function whose model takes eight tokens, or one whose embedding of a text is the number of its bytes."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "tokens":
        library = abi_library.build(folder, abi_library.sentence_description(formats=["float32"]))
        vocabulary.write_prepared(folder, truncate=False)
    else:
        library = vocabulary.write_counter(folder)
    with function(library, RequestLimits.for_memory(1769)) as started:
        yield started


def knows_words(there: There) -> bool:
    return there.server.find_description(None).text is None


def require_works(there: There, way: str) -> None:
    (found,) = there.ask(way, [GOOD])
    (vector,) = found.values()
    tokens = [*vocabulary.ids("good", "film"), *[0] * 4]
    assert vector == ([len(GOOD)] if knows_words(there) else tokens)


def refused(there: There, send: Callable[[], Any]) -> str:
    """The code of what was sent."""
    with pytest.raises(Refused) as caught:
        there.told(send)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_text_has_a_code(there: There, way: str, case: str) -> None:
    text, code = CASES[case]
    if way in BYTES and not isinstance(text, str):
        text, code = b"\xff", "not_text"  # the nearest that these can carry
    if knows_words(there) and text == "" and way in TENSORS:
        assert there.ask(way, [GOOD, text])  # a string like others
    else:
        assert refused(there, lambda: there.ask(way, [GOOD, text])) == code
    require_works(there, way)


@pytest.mark.parametrize("way", WAYS)
def test_too_many(there: There, way: str) -> None:
    if way not in ALONE:
        assert refused(there, lambda: there.ask(way, [GOOD] * 5_000)) == "too_many_images"
        require_works(there, way)


def test_json_that_is_not_utf_8(there: There) -> None:
    """In an event there is none: Lambda hands on characters."""
    path = f"models/{there.server.find_description(None).name}"
    name = "text" if knows_words(there) else "input_ids"
    tensor = {"name": name, "datatype": "BYTES", "shape": [1], "data": ["@"]}
    bodies = {
        "/predict": {"text": "@"},
        f"/v2/{path}/infer": {"inputs": [tensor]},
        f"/v1/{path}:predict": {"instances": ["@"]},
        "/v1/embeddings": {"input": "@"},
    }
    for where, body in bodies.items():
        assert refused(there, partial(there.http, where, _damaged(body))) == "not_json"
    assert refused(there, lambda: there.stored("it.json", _damaged({"text": "@"}))) == "not_text"
    for way in ("query", "S3, a request"):
        require_works(there, way)


def test_a_byte_order_mark_is_no_part_of_it(there: There) -> None:
    mark, wanted = b"\xef\xbb\xbf", there.ask("direct", [GOOD])
    request = mark + json.dumps({"text": GOOD}).encode()
    assert there.told(lambda: there.stored("it.txt", mark + GOOD.encode())) == wanted
    assert there.told(lambda: there.stored("it.json", request)) == wanted
    assert there.told(lambda: predictions(there.http("/predict", request))) == wanted
    assert there.ask("text/plain", [mark + GOOD.encode()]) == wanted


def _damaged(body: object) -> bytes:
    return json.dumps(body).encode().replace(b"@", b"good \xff film")


def test_text_in_other_bytes(there: There) -> None:
    """UTF-16, and UTF-8 that is cut off, over long or of half a pair."""
    plain = {"content-type": "text/plain"}
    name = there.server.find_description(None).name
    for data in ("good".encode("utf-16"), "天".encode()[:2], b"\xc0\xaf", b"\xed\xa0\x80", b"a\xf5\x80\x80\x80"):
        body, headers = binary("text" if knows_words(there) else "input_ids", [GOOD, data])
        sent: tuple[Callable[[], Any], ...] = (
            partial(there.http, "/predict", data, plain),
            partial(there.stored, "it.txt", data),
            partial(there.http, f"/v2/models/{name}/infer", body, headers),
        )
        assert [refused(there, send) for send in sent] == ["not_text"] * 3
    for way in BYTES:
        require_works(there, way)
