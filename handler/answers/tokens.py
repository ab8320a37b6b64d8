"""Labels of the words of a text, or of what several words name, and where they stand in it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from ..answer import ItemOutputs
from ..description import Output, Port
from ..text import LocatedText
from ..tuples import NamedTuple
from ..typed import Any


class Word(NamedTuple):
    """The characters ``start`` to ``end`` of a text. ``token``: the number of its first piece."""

    token: int
    start: int
    end: int


class TaggedSpan(NamedTuple):
    """What was found in the characters ``start`` to ``end``, with the sum of the scores of so many ``words``."""

    label: str
    start: int
    end: int
    score: float
    words: int = 1


def format_answer(output: Output, item: ItemOutputs) -> list[dict[str, Any]]:
    """The labels of the words in their order: label, word, start, end and score.

    A word has the label and score of its first piece, and what is joined the mean score of its words. Of an item of
    tensors: the label and score of each token.
    """
    data, shape = item.get_values(output.fetch)
    classes = shape[-1]

    def best(token: int) -> tuple[str, float]:
        scores = data[token * classes : (token + 1) * classes].tolist()
        score = max(scores)
        number = scores.index(score)
        return output.labels[number] if number < len(output.labels) else str(number), score

    if item.text is None:
        return [{"label": label, "score": _number(score)} for label, score in map(best, range(shape[0]))]
    text = item.text.text
    found = []
    for token, start, end in find_words(item.text):
        label, score = best(token)
        found.append(TaggedSpan(label, start, end, score))
    return [
        {
            "label": one.label,
            "word": text[one.start : one.end],
            "start": one.start,
            "end": one.end,
            "score": _number(one.score / one.words),
        }
        for one in (join_words(found) if output.join else found)
        if one.label not in output.ignore
    ]


def compute_min_length(output: Output, ports: Mapping[str, Port]) -> int:
    """Characters that ``format_answer`` has at least."""
    return len("[]")


def find_words(located: LocatedText) -> Iterator[Word]:
    """The words of a text, without the space around them, and with the marks that stand on their last letter.

    A word is what the tokenizer took for one, and ends at a space in any case: some take a whole text for one.
    """
    text = located.text
    word, last = Word(0, 0, 0), None
    for token, (number, first, end) in enumerate(located.places):
        start = first
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        end = _with_marks(text, end) if start < end else end
        same, empty = number is not None and number == last, word.start == word.end
        # Some tokenizers make a word of its own of a mark: it is the last letter's all the same.
        goes_on = not empty and number is not None and (same or start < word.end)
        if goes_on and not any(map(str.isspace, text[word.end : start])):
            word = word._replace(end=max(word.end, end))
            continue
        if not empty:
            yield word
        # A space that is a piece of its own stands for the word that begins behind it.
        first_piece = word.token if same and empty and start == first else token
        word, last = Word(first_piece, start, end if number is not None else start), number
    if word.start < word.end:
        yield word


def _with_marks(text: str, end: int) -> int:
    """``end`` behind the marks that stand there: some tokenizers take accents and vowel signs away."""
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return end


def join_words(found: Sequence[TaggedSpan]) -> Iterator[TaggedSpan]:
    """Words of one thing together, without the ``B-`` and ``I-`` of their labels.

    That is words in a row whose labels differ in no more than these; a ``B-`` begins another thing.
    """
    thing: TaggedSpan | None = None
    for one in found:
        name = one.label[2:] if one.label.startswith(("B-", "I-")) else one.label
        if thing and thing.label == name and not one.label.startswith("B-"):
            thing = thing._replace(end=one.end, score=thing.score + one.score, words=thing.words + 1)
            continue
        if thing:
            yield thing
        thing = one._replace(label=name)
    if thing:
        yield thing


def _number(score: float) -> float | None:
    """Nine digits, which are all that float32 has; None for what is no number."""
    return float(format(score, ".9g")) if math.isfinite(score) else None
