"""Steps that make numbers of strings: what a file may say, what a text may ask for, and what is refused with a code.

That they do what TensorFlow does is tested in tests/integration/test_words.py.
"""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.importers.strings.regex import translate_pattern
from builder.importers.strings.string_ops import join_recipes
from handler.answers.tokens import find_words as words_in
from handler.budget import RequestLimits
from handler.description import Port
from handler.errors import OutOfTimeError, OverBudgetError, StartupError, TextTooLongError, UnfitTextError
from handler.text import token_spans
from handler.text.arrays import (
    MOST,
    Array,
    _pad_array,
    _ragged_to_tensor,
    _strided_slice,
    apply_elementwise,
    make_vector,
)
from handler.text.words import FILE, StringProgram, open_words, parse_program
from tests.support.words import sized, tensors

IDS = {"ids": Port("ids", "int64", (1, 3), 24)}


def recipe(
    steps: Sequence[Mapping[str, Any]],
    output: int,
    constants: Sequence[Mapping[str, Any]] = (),
    tables: Sequence[Mapping[str, Any]] = (),
    shape: Sequence[int] = (1,),
) -> bytes:
    found = {
        "inputs": [{"name": "text", "shape": shape}],
        "constants": constants,
        "tables": tables,
        "steps": steps,
        "outputs": [{"feed": "ids", "value": output}],
        "checks": [],
    }
    return json.dumps({"kind": "words"}).encode() + b"\n" + json.dumps(found).encode()


def look_up() -> StringProgram:
    """A vocabulary of two words in three strings."""
    table = {"strings": True, "keys": ["the", "\udcff"], "first": 7}
    default = {"shape": [], "numbers": [-1]}
    steps = [
        {"op": "StringLower", "of": [0]},
        {"op": "LookupTableFindV2", "of": [2, 1], "table": 0},
    ]
    return parse_program(recipe(steps, 3, [default], [table], (1, 3)))


def test_strings_become_the_bytes_of_a_feed() -> None:
    found = tensors(look_up(), {"text": [b"The", b"\xff", b"", b"the", b"x", b"THE"]}, IDS)
    assert struct.unpack("<6q", found["ids"]) == (7, 8, -1, 7, -1, 7)


def of_any_length(*, truncate: bool = False) -> StringProgram:
    """The number of each character of a text, and 9 behind the last."""
    made = json.loads(recipe([{"op": "UnicodeDecode", "of": [0]}, {"op": "ExpandDims", "of": [3, 1]}], 4, [
        {"shape": [], "numbers": [0]}
    ], shape=()).partition(b"\n")[2])  # fmt: skip
    made["outputs"][0] |= {"pad": 9} | ({"truncate": True} if truncate else {})
    return parse_program(b'{"kind": "words"}\n' + json.dumps(made).encode())


SIZES = [{"ids": Port("ids", "int32", (2, length), 8 * length)} for length in (2, 3, 5)]


@pytest.mark.parametrize(("texts", "number"), [(["", "a"], 0), (["ab", "abc"], 1), (["abcd"], 2), (["a", "abcde"], 2)])
def test_rows_of_any_length_become_those_of_the_smallest_size(texts: list[str], number: int) -> None:
    chosen, found = sized(of_any_length(), {"text": [text.encode() for text in texts]}, SIZES)
    length = (2, 3, 5)[chosen]
    rows = [[*map(ord, text), *[9] * (length - len(text))] for text in texts]
    assert (chosen, list(struct.iter_unpack(f"<{length}i", found["ids"]))) == (number, [*map(tuple, rows)])


def test_a_row_that_is_longer_than_any_size() -> None:
    with pytest.raises(TextTooLongError, match=r"becomes 6 numbers; the model takes 5 at most \(item 2 of 2\)"):
        sized(of_any_length(), {"text": [b"a", b"abcdef"]}, SIZES)


def test_a_row_that_is_longer_than_any_size_is_cut_off() -> None:
    texts = [b"abcdefg", b"ab", b"z" * 1000]
    chosen, found = sized(of_any_length(truncate=True), {"text": texts}, SIZES)
    rows = [[*map(ord, text)] for text in ("abcde", "ab\t\t\t", "zzzzz")]
    assert (chosen, list(struct.iter_unpack("<5i", found["ids"]))) == (2, [*map(tuple, rows)])


def replaced(pattern: str, *rewrite: str | int, everywhere: bool = True) -> dict[str, Any]:
    return {
        "op": "RegexReplace", "pattern": pattern, "rewrite": rewrite, "everywhere": everywhere, "cost": 1, "slope": 0,
    }  # fmt: skip


wide = translate_pattern("(?:[a-z]{500}){200}!")
TRACED = (
    {"op": "StringLower"},
    {"op": "StringLower", "encoding": "utf-8"},
    {"op": "StringUpper", "encoding": "utf-8"},
    {"op": "StringUpper"},
    {"op": "StringStrip"},
    replaced("[.,']"),
    replaced("([.,])", " ", 1, " "),
    replaced("a+", "", "bc", everywhere=False),
)
LETTERS = st.sampled_from("aA. ,'\t\nßİΣ\u0130\u00a0\0日é😀")


@given(st.text(LETTERS, max_size=40), st.lists(st.sampled_from(TRACED), max_size=4))
def test_each_word_comes_from_somewhere(text: str, steps: list[dict[str, Any]]) -> None:
    """The steps with places make as many characters and words as those without, from left to right."""
    made = parse_program(recipe([step | {"of": [at]} for at, step in enumerate(steps)], len(steps)))
    (final,) = made.compute_arrays([[text.encode()]])["ids"].values
    for split, count in (("UnicodeDecode", len(final.decode())), ("StringSplitV2", len(final.split()))):
        tokens = token_spans.parse_finder({"source": "text", "feed": "ids", "steps": steps, "split": split})
        places = tokens.find_places(text, 1000)
        assert len(places) == count
        assert all(0 <= place.start < place.end <= len(text) for place in places)
        assert all(a.start <= b.start and a.end <= b.end for a, b in pairwise(places))


def test_words_as_they_stand_in_the_text() -> None:
    steps = [TRACED[1], replaced("[^a-zä ]")]
    tokens = token_spans.parse_finder({"source": "text", "feed": "ids", "steps": steps, "split": "StringSplitV2"})
    text = "  (Ä), İa don't\tstop  — X."
    (found,) = tokens.locate_words([text.encode()], 3, RequestLimits(), lambda: 1.0)
    assert [text[place.start : place.end] for place in found.places] == ["Ä", "İa", "don't\tstop"]
    assert [text[word.start : word.end] for word in words_in(found)] == ["Ä", "İa", "don't\tstop"]


def test_places_have_limits() -> None:
    tokens = token_spans.parse_finder({"source": "text", "feed": "ids", "steps": [], "split": "StringSplitV2"})
    with pytest.raises(OutOfTimeError):
        tokens.locate_words([b"a"], 3, RequestLimits(), lambda: 0.0)
    with pytest.raises(OverBudgetError):
        tokens.locate_words([b"a " * 100_000], 10**6, RequestLimits(memory=2**20), lambda: 1.0)


def test_a_file_beside_the_library(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(recipe([], 0))
    (words,) = open_words(str(tmp_path / "libmodel.so")).values()
    assert [*words.inputs] == ["text"]


def test_a_file_of_several_signatures(tmp_path: Path) -> None:
    other = recipe([{"op": "StringLength", "of": [0]}], 1)
    (tmp_path / FILE).write_bytes(join_recipes({"serving_default": recipe([], 0), "lengths": other}))
    found = open_words(str(tmp_path / "libmodel.so"))
    assert [*found] == ["serving_default", "lengths"]
    assert found["lengths"].compute_arrays([[b"three"]])["ids"].values == [5]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"kind": "wordpiece"}\n{}',
        b'{"kind": "words"}\n{}',
        b'{"kind": "words"}\n[',
        recipe([{"op": "Print", "of": [0]}], 1),
        recipe([{"op": "LookupTableFindV2", "of": [0, 0], "table": 3}], 1),
    ],
)
def test_a_file_that_is_something_else_stops_the_function(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(StartupError, match="build the bundle and the function with the same version"):
        open_words(str(tmp_path / "libmodel.so"))


def test_no_file() -> None:
    with pytest.raises(StartupError):
        open_words("/nowhere/libmodel.so")


def to_numbers(whole: bool) -> StringProgram:
    return parse_program(recipe([{"op": "StringToNumber", "of": [0], "bits": 32, "whole": whole}], 1, shape=(1, 3)))


NO_NUMBERS = (b"", b"seven", b"1.5", b"1e3", b"2147483648", "٣".encode(), b"1" * 5000, b"0x10", b"1_0")


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(UnfitTextError, match=r"no whole number .* \(item 2 of 2\)"):
        tensors(to_numbers(True), {"text": [b"1"] * 4 + [text, b"2"]}, IDS)


@pytest.mark.parametrize("text", [b"", b"1.5.2", "½".encode(), b"1" * 5000, b"0x1p3", b"1_0.0"])
def test_what_is_no_fraction_is_refused(text: bytes) -> None:
    with pytest.raises(UnfitTextError):
        tensors(to_numbers(False), {"text": [text] * 3}, {"ids": Port("ids", "float32", (1, 3), 12)})


def test_a_fraction_that_the_feed_cannot_hold() -> None:
    with pytest.raises(UnfitTextError, match="cannot take"):
        tensors(to_numbers(False), {"text": [b"1e300"] * 3}, {"ids": Port("ids", "float32", (1, 3), 12)})


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(TextTooLongError, match=r"more than 200,000 bytes.*item 2 of 2"):
        tensors(look_up(), {"text": [b"a"] * 5 + [b"a" * 200_001]}, IDS)


def test_a_pattern_whose_time_grows_with_the_square() -> None:
    step = replaced("<[^>]+>", "") | {"of": [0], "cost": 3, "slope": 2}
    length = {"op": "StringLength", "of": [1]}
    words = parse_program(recipe([step, length], 2))
    one = {"ids": Port("ids", "int64", (1,), 8)}
    assert struct.unpack("<q", tensors(words, {"text": [b"<" * 20_000]}, one)["ids"]) == (20_000,)
    with pytest.raises(TextTooLongError):
        tensors(words, {"text": [b"<" * 30_000]}, one)


def test_time_that_is_over() -> None:
    with pytest.raises(OutOfTimeError):
        tensors(look_up(), {"text": [b"a"] * 3}, IDS, seconds_left=lambda: 0.0)


def test_time_that_is_over_between_two_steps() -> None:
    steps = [{"op": "StringUpper"}] * 5
    words = parse_program(recipe([step | {"of": [at]} for at, step in enumerate(steps)], 5))
    tokens = token_spans.parse_finder({"source": "text", "feed": "ids", "steps": steps, "split": "StringSplitV2"})
    for run in (
        lambda clock: words.compute_arrays([[b"a"]], seconds_left=clock),
        lambda clock: tokens.find_places("a", 3, seconds_left=clock),
    ):
        left = iter([1.0] * 4 + [0.0])
        with pytest.raises(OutOfTimeError):
            run(lambda left=left: next(left))


LONG = b"ab " * 20_000
SPLIT = {"op": "StringSplitV2", "of": [0, 1]}
"""LONG's 20,000 words, as value 3 where there is one constant."""


def numbers(*values: int, scalar: bool = False) -> dict[str, Any]:
    return {"shape": [] if scalar else [len(values)], "numbers": values}


def repeated(op: str, first: int, count: int, *behind: int, **attributes: Any) -> list[dict[str, Any]]:
    """``op`` of the value ``first``, twice, and then of what it made, twice."""
    return [{"op": op, "of": [at, at, *behind], **attributes} for at in range(first, first + count)]


SPACE = {"shape": [], "strings": [" "]}
GROWING: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "joined with itself": (repeated("StringJoin", 0, 14, separator=""), []),
    "joined with many": ([{"op": "StringJoin", "of": [0] * 1_000}], []),
    "each word with the text": ([SPLIT, {"op": "StringJoin", "of": [3, 0]}], [SPACE]),
    "what stands before each word": (
        [{"op": "Substr", "of": [0, 1, 2]}], [numbers(*[0] * 20_000), numbers(*range(0, 60_000, 3))],
    ),
    "n-grams": (
        [
            {"op": "StringSplitV2", "of": [0, 2]},
            {
                "op": "StringNGrams", "of": [4, 1], "separator": "", "ngram_widths": [9, 5_000], "left_pad": "",
                "right_pad": "", "pad_width": 0, "preserve_short_sequences": False,
            },
        ],
        [numbers(0, 20_000), SPACE],
    ),
    "copies joined": (
        [{"op": "BroadcastTo", "of": [0, 1]}, {"op": "ReduceJoin", "of": [3, 2], "separator": ""}],
        [numbers(1_000), numbers(0)],
    ),
    "copies in capitals": (
        [{"op": "BroadcastTo", "of": [0, 1]}, {"op": "StringUpper", "of": [2]}], [numbers(10_000)],
    ),
    "copies split": (
        [{"op": "BroadcastTo", "of": [0, 2]}, {"op": "StringSplitV2", "of": [3, 1]}], [SPACE, numbers(1_000)],
    ),
    "a long text for each letter": ([replaced("[a-z]", "x" * 1_000) | {"of": [0]}], []),
    "a match many times": ([replaced("(.+)", *[1] * 1_000) | {"of": [0]}], []),
    "more and more words": ([SPLIT, *repeated("ConcatV2", 4, 14, 2)], [SPACE, numbers(0, scalar=True)]),
    "tiles": ([{"op": "Tile", "of": [0, 1]}], [numbers(10**12)]),
    "squares": ([{"op": "StringLength", "of": [0]}, *repeated("Mul", 1, 40)], []),
    "a product": (
        [
            {"op": "StringLength", "of": [0]}, {"op": "BroadcastTo", "of": [3, 1]},
            {"op": "Prod", "of": [4, 2], "keep_dims": False},
        ],
        [numbers(100_000), numbers(0)],
    ),
    "a wide pattern": ([replaced(wide.pattern, "") | {"of": [0], "cost": wide.cost, "slope": wide.slope}], []),
}  # fmt: skip


@pytest.mark.parametrize("case", GROWING)
def test_steps_that_make_too_much_of_a_text_are_stopped(case: str) -> None:
    steps, constants = GROWING[case]
    words = parse_program(recipe(steps, 0, constants))
    limits = RequestLimits(memory=50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(UnfitTextError if case in ("squares", "a product") else (OverBudgetError, TextTooLongError)):
            words.compute_arrays([[LONG]], limits)
        assert tracemalloc.get_traced_memory()[1] < 2 * limits.memory
    finally:
        tracemalloc.stop()


def test_other_numbers_than_the_feed_holds() -> None:
    step = {"op": "UnicodeDecode", "of": [0]}
    with pytest.raises(TextTooLongError, match="becomes 4 numbers; the model takes 3"):
        tensors(parse_program(recipe([step], 2)), {"text": [b"abcd"]}, IDS)


def test_what_is_not_there_is_an_unfit_text() -> None:
    steps = [{"op": "Substr", "of": [0, 1, 2]}]
    constants = [{"shape": [], "numbers": [5]}, {"shape": [], "numbers": [1]}]
    with pytest.raises(UnfitTextError):
        tensors(parse_program(recipe(steps, 3, constants)), {"text": [b"abc"]}, IDS)


def test_an_array_that_is_too_large_is_never_made() -> None:
    wide = Array((1, MOST), [0] * MOST)
    with pytest.raises(TextTooLongError):
        apply_elementwise(int, wide, Array((2, 1), [1, 2]))
    with pytest.raises(TextTooLongError):
        _ragged_to_tensor(
            make_vector([-1, MOST]),
            make_vector([1]),
            Array((), [0]),
            make_vector([0, 1, 1]),
            row_partition_types=["ROW_SPLITS"],
        )
    with pytest.raises(TextTooLongError):
        _pad_array(make_vector([1]), make_vector([0, MOST]))


def test_a_slice_of_every_kind() -> None:
    x = Array((2, 3), [1, 2, 3, 4, 5, 6])

    def cut(begin: list[int], end: list[int], strides: list[int], **masks: int) -> Array:
        return _strided_slice(x, make_vector(begin), make_vector(end), make_vector(strides), **masks)

    assert cut([0, 2], [0, -4], [1, -1], begin_mask=1, end_mask=3) == Array((2, 3), [3, 2, 1, 6, 5, 4])
    assert cut([0, 1], [0, 2], [1, 1], ellipsis_mask=1, shrink_axis_mask=2) == Array((2,), [2, 5])
    assert cut([0, 1], [0, 2], [1, 1], new_axis_mask=1) == Array((1, 1, 3), [4, 5, 6])
    with pytest.raises(IndexError):
        cut([2], [3], [1], shrink_axis_mask=1)
