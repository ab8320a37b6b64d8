"""Labels of words: where they stand in the text that was sent, what is joined, and what is left out."""

from __future__ import annotations

import json
import struct
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from handler import events
from handler.answer import compute_min_predictions_length, make_predictions, require_room
from handler.answers.tokens import TaggedSpan, find_words, join_words
from handler.budget import RequestLimits
from handler.description import Description, parse_description
from handler.errors import AnswerTooLargeError, OverBudgetError, StartupError
from handler.model import Model
from handler.server import Server
from handler.text import LocatedText, TextTokenizer, TokenPlace, open_texts
from tests.support import abi_library, vocabulary
from tests.support.http import Client
from tests.support.vocabulary import PIECES

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
LENGTHS = (4, 8)
SMALLEST = struct.unpack("<f", struct.pack("<i", 1))[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    abi_library.build(folder, abi_library.tagged_description())
    vocabulary.write_prepared(folder)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Client:
    return Client(Server({"sized": Model(str(folder / "libmodel.so"))}, RequestLimits(characters=2_000, items=20)))


@pytest.fixture(scope="module")
def texts(folder: Path) -> TextTokenizer:
    return open_texts(str(folder / "libmodel.so"), parse_description(json.dumps(abi_library.tagged_description())))


def answers(client: Client, body: dict[str, Any]) -> list[list[dict[str, Any]]]:
    status, answer = client.post("/predict", body)
    assert status == 200, answer
    return [item["words"] for item in answer["predictions"]]


def found(client: Client, text: str) -> list[tuple[str, int, int, str]]:
    """Of each word what stands there, where, and its first piece, as its score tells."""
    (one,) = answers(client, {"text": text})
    return [(word["word"], word["start"], word["end"], PIECES[round(word["score"] / SMALLEST)]) for word in one]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Good film", [("Good", 0, 4, "good"), ("film", 5, 9, "film")]),
        ("  unknown!plays", [("unknown", 2, 9, "un"), ("!", 9, 10, "!"), ("plays", 10, 15, "play")]),
        ("天 天", [("天", 0, 1, "天"), ("天", 2, 3, "天")]),
        ("good\u200bbad 1é", [("good\u200bbad", 0, 8, "good"), ("1é", 9, 11, "[UNK]")]),
        ("e\u0301a bad", [("e\u0301a", 0, 3, "e"), ("bad", 4, 7, "bad")]),
        ("a" * 200 + " b", [("a" * 200, 0, 200, "[UNK]"), ("b", 201, 202, "b")]),
        ("good[SEP]bad", [("good", 0, 4, "good"), ("[SEP]", 4, 9, "[SEP]"), ("bad", 9, 12, "bad")]),
        (" \n\u0301", []),
    ],
)
def test_each_word_has_its_place_and_the_label_of_its_first_piece(client: Client, text: str, wanted: Any) -> None:
    assert found(client, text) == wanted


def test_what_is_cut_off_has_no_label(client: Client) -> None:
    """Of eight tokens two are special."""
    assert [word for word, *_ in found(client, "good " * 9)] == ["good"] * 6
    assert found(client, "a b c d e unknown")[-1] == ("un", 10, 12, "un")


def test_texts_of_one_request_are_answered_in_their_order(client: Client) -> None:
    several = ["bad", "very very very very", "good", "天天", ""]
    together = answers(client, {"texts": several[:-1]})
    assert [[word["word"] for word in one] for one in together] == [["bad"], ["very"] * 4, ["good"], ["天", "天"]]
    assert together == [answers(client, {"text": text})[0] for text in several[:-1]]


def test_of_tensors_each_token_has_a_label(client: Client) -> None:
    (one,) = answers(client, {"inputs": {"input_ids": [[2, 5, 3, 0]]}})
    assert [(word["label"], round(word["score"] / SMALLEST)) for word in one] == [
        ("yes", 2), ("yes", 5), ("yes", 3), ("yes", 0),
    ]  # fmt: skip
    assert set(one[0]) == {"label", "score"}


def test_the_document_describes_the_answer(client: Client) -> None:
    document = client.get("/openapi.json")
    response = document["paths"]["/predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**response, "components": document["components"]})
    for body in ({"text": "good film"}, {"inputs": {"input_ids": [[2, 5, 3, 0]]}}):
        _, answer = client.post("/predict", body)
        assert validator.is_valid(answer)
        answer["predictions"][0]["words"][0].pop("label")
        assert not validator.is_valid(answer)


def test_other_protocols_have_the_scores(client: Client) -> None:
    _, answer = client.post("/v1/models/sized:predict", {"instances": ["good"]})
    assert len(answer["predictions"][0]) == LENGTHS[0]


def told(labels: tuple[str, ...], rows: list[list[float]], text: str, places: list[Any], **changes: Any) -> Any:
    """The answer to ``text`` whose tokens have the scores ``rows``."""
    made = abi_library.tagged_description((len(rows),), len(labels), labels=labels, **changes)
    description = parse_description(json.dumps(made))
    scores = memoryview(array("f", [value for row in rows * 2 for value in row]))
    located = LocatedText(text, [TokenPlace(*place) for place in places])
    (item, _) = make_predictions(description, [scores], 2, (), (located, located))
    return [(one["label"], one["word"], one["score"]) for one in item["words"]]


NAMES = "Angela Merkel in Bonn Köln"
PLACED = [(None, 0, 0), (0, 0, 6), (1, 7, 10), (1, 10, 13), (2, 14, 16), (3, 17, 21), (4, 22, 26), (None, 0, 0)]


def rows(*labels: str) -> list[list[float]]:
    """Scores of 0.5 and more: each token's is larger by 1/64."""
    return [[(0.5 + at / 64) * (one == label) for one in BIO] for at, label in enumerate(labels)]


def test_names_of_several_words_are_joined() -> None:
    scores = rows("B-LOC", "B-PER", "I-PER", "O", "O", "B-LOC", "B-LOC", "O")
    assert told(BIO, scores, NAMES, PLACED, join=True, ignore=["O"]) == [
        ("PER", "Angela Merkel", 0.5 + 1.5 / 64),
        ("LOC", "Bonn", 0.5 + 5 / 64),
        ("LOC", "Köln", 0.5 + 6 / 64),
    ]
    assert [label for label, *_ in told(BIO, scores, NAMES, PLACED, ignore=["O"])] == [
        "B-PER", "I-PER", "B-LOC", "B-LOC",
    ]  # fmt: skip
    assert [one[:2] for one in told(BIO, scores, NAMES, PLACED, join=True, ignore=["LOC"])] == [
        ("PER", "Angela Merkel"),
        ("O", "in"),
    ]


def test_a_score_that_is_no_number_is_null() -> None:
    scores = [[float("nan")] * 5] * 8
    assert told(BIO, scores, NAMES, PLACED, ignore=["O"]) == []
    assert told(BIO, scores, NAMES, PLACED)[0] == ("O", "Angela", None)


@pytest.mark.parametrize(
    ("labels", "things"),
    [
        ("B-a I-a I-a", "a:0-3"),
        ("B-a B-a", "a:0-1 a:1-2"),
        ("I-a I-b I-b", "a:0-1 b:1-3"),
        ("B-a O I-a", "a:0-1 O:1-2 a:2-3"),
        ("a a b", "a:0-2 b:2-3"),
        ("B-I-a I-I-a", "I-a:0-2"),
        ("", ""),
    ],
)
def test_what_is_joined(labels: str, things: str) -> None:
    given_words = [TaggedSpan(label, at, at + 1, 1.0) for at, label in enumerate(labels.split())]
    made = list(join_words(given_words))
    assert " ".join(f"{one.label}:{one.start}-{one.end}" for one in made) == things
    assert all(one.score == one.words == one.end - one.start for one in made)


@pytest.mark.parametrize(
    ("text", "places", "wanted"),
    [
        ("a film", [(0, 0, 1), (1, 1, 6)], ["a", "film"]),  # the space belongs to the piece
        ("a film", [(0, 0, 1), (0, 1, 4), (0, 4, 6)], ["a", "film"]),  # the whole text is a word
        ("a  b", [(0, 0, 1), (1, 1, 2), (1, 2, 4)], ["a", "b"]),  # a piece of nothing but space
        ("天", [(0, 0, 1), (0, 0, 1), (0, 0, 1)], ["天"]),  # bytes of one character
        ("don't", [(0, 0, 3), (1, 3, 5)], ["don", "'t"]),
        ("ab", [(0, 0, 1), (None, 0, 0), (0, 1, 2)], ["a", "b"]),
        ("a 天", [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 2, 3)], ["a", "天"]),  # the space, and bytes of a character
        ("a 天", [(0, 0, 1), (1, 1, 2), (1, 2, 3), (2, 2, 3)], ["a", "天"]),
        ("e\u0301 b", [(0, 0, 1), (1, 3, 4)], ["e\u0301", "b"]),  # the accent was taken away
        ("e\u0301b", [(0, 0, 1), (1, 1, 2), (2, 2, 3)], ["e\u0301", "b"]),  # it is a word of its own
        ("में हूँ", [(0, 0, 1), (1, 4, 5)], ["में", "हूँ"]),
        ("\u0301a", [(0, 0, 1), (1, 1, 2)], ["\u0301", "a"]),
        ("☎\ufe0f 👍🏽!", [(0, 0, 1), (1, 3, 5), (2, 5, 6)], ["☎\ufe0f", "👍🏽", "!"]),
        ("", [(None, 0, 0), (None, 0, 0)], []),
    ],
)
def test_words_are_without_the_space_around_them(text: str, places: list[Any], wanted: list[str]) -> None:
    located = LocatedText(text, [TokenPlace(*place) for place in places])
    assert [text[word.start : word.end] for word in find_words(located)] == wanted


@pytest.mark.parametrize(
    ("text", "places", "tokens"),
    [
        ("a 天", [(0, 0, 1), (1, 1, 2), (1, 2, 3)], [0, 1]),
        ("a 天天", [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4)], [0, 1]),
        ("a  b", [(0, 0, 1), (1, 1, 2), (1, 2, 4)], [0, 2]),
        ("a b", [(0, 0, 1), (1, 1, 2), (2, 2, 3)], [0, 2]),
    ],
)
def test_a_space_that_is_a_piece_is_the_first_of_its_word(text: str, places: list[Any], tokens: list[int]) -> None:
    located = LocatedText(text, [TokenPlace(*place) for place in places])
    assert [word.token for word in find_words(located)] == tokens


@given(st.text("a é\u0301\n天", max_size=9), st.data())
def test_words_never_overlap(text: str, data: st.DataObject) -> None:
    place = st.integers(0, len(text))
    drawn = st.lists(st.tuples(place, place, st.integers(0, 3)), max_size=9).map(sorted)
    around = [TokenPlace(None, 0, 0)]
    places = [*around, *(TokenPlace(number, one, max(one, other)) for one, other, number in data.draw(drawn)), *around]
    end = 0
    for word in find_words(LocatedText(text, places)):
        assert end <= word.start < word.end <= len(text)
        assert not any(map(str.isspace, (text[word.start], text[word.end - 1])))
        end = word.end


@given(st.text(min_size=1, max_size=60), st.integers(2, 9))
def test_places_go_with_the_ids_and_are_in_the_text(texts: TextTokenizer, text: str, longest: int) -> None:
    encoding, places = texts.encoder.locate_tokens(text, longest)
    assert encoding == texts.encoder.encode_text(text, longest)
    assert len(places) == len(encoding.ids)
    starts = [place.start for place in places[1:-1]]
    assert starts == sorted(starts)
    assert all(0 <= start < end <= len(text) for _, start, end in places[1:-1])


def test_tokens_are_paid_for_in_memory(texts: TextTokenizer) -> None:
    limits = RequestLimits(memory=100_000)
    items = [("a",)] * 10
    assert texts.locate_texts(items, limits, lambda: 1.0)[0] == texts.encode_texts(items, limits, lambda: 1.0)
    with pytest.raises(OverBudgetError):
        texts.locate_texts([("a " * 10,)] * 100, limits, lambda: 1.0)


def test_an_answer_of_long_words_is_measured() -> None:
    """Lambda takes 6 MB; each of these characters becomes six."""
    word = {"label": "a", "word": "b", "start": 0, "end": 1, "score": 1.0}
    require_room({"predictions": [{"words": [word, word | {"word": "天" * 1_000_000}]}]})
    with pytest.raises(AnswerTooLargeError):
        require_room({"predictions": [{"words": [word, word | {"word": "天" * 1_050_000}]}]})


@pytest.mark.parametrize("kind", ["direct", "sqs", "step_functions"])
def test_events_are_answered_with_words(client: Client, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"texts": ["good film", "天"]}
    call = client.call()
    if kind == "direct":
        result = events.answer_event(body, client.server, call)
    elif kind == "step_functions":
        result = events.answer_event({"Items": [body]}, client.server, call)["results"][0]
    else:
        reported: list[dict[str, Any]] = []
        call = call._replace(report=lambda _, fields: reported.append(fields))
        record = {"messageId": "1", "eventSource": "aws:sqs", "body": json.dumps(body)}
        assert events.answer_event({"Records": [record]}, client.server, call) == {"batchItemFailures": []}
        result = reported[0]["result"]
    assert [[one["word"] for one in item["words"]] for item in result["predictions"]] == [["good", "film"], ["天"]]


def test_no_more_than_nothing_is_promised() -> None:
    description: Description = parse_description(json.dumps(abi_library.tagged_description()))
    assert compute_min_predictions_length(description, 3) == 3 * len("[]")


@pytest.mark.parametrize("changes", [{"text": None}, {"fetches": [abi_library._port("tags", "float32", 2, 4)]}])
def test_a_description_without_scores_for_tokens_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(StartupError, match="tags has no scores for each token of a text"):
        parse_description(json.dumps(abi_library.tagged_description((4,)) | changes))
