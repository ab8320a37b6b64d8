"""Labels of the words of a text, or of things that several words name, with their places in it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence

from ..answer import ItemOutputs
from ..description import Output
from ..named_tuples import NamedTuple
from ..text import LocatedText
from ..typed import Any


class Word(NamedTuple):
    """The characters ``start`` to ``end`` of a text. ``token``: the number of its first piece."""

    token: int
    start: int
    end: int


class TaggedSpan(NamedTuple):
    """The label of the characters ``start`` to ``end``, with the sum of the scores of its ``words``."""

    label: str
    start: int
    end: int
    score: float
    words: int = 1


def format_answer(output: Output, item: ItemOutputs) -> list[dict[str, Any]]:
    """Return label, word, start, end and score of each word in order; for an item of tensors those of each token.

    A word has the label and score of its first piece; joined words have the mean of their scores. A token has a label
    and a score alone.
    """
    data, shape = item.get_values(output.fetch)
    classes = shape[-1]

    def classify(token: int) -> tuple[str, float]:
        scores = data[token * classes : (token + 1) * classes].tolist()
        score = max(scores)
        return output.get_label(scores.index(score)), score

    if item.text is None:
        return [{"label": label, "score": _number(score)} for label, score in map(classify, range(shape[0]))]
    text = item.text.text
    spans = []
    for token, start, end in find_words(item.text):
        label, score = classify(token)
        spans.append(TaggedSpan(label, start, end, score))
    return [
        {
            "label": span.label,
            "word": text[span.start : span.end],
            "start": span.start,
            "end": span.end,
            "score": _number(span.score / span.words),
        }
        for span in (join_words(spans) if output.join else spans)
        if span.label not in output.ignore
    ]


def find_words(located: LocatedText) -> Iterator[Word]:
    """Yield the words of a text, without the space around them, and with the marks on their last letter.

    A word is one of the tokenizer's, but always ends at a space: for some tokenizers, a whole text is one word.
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
        # Some tokenizers make a mark a word of its own, though it belongs to the letter before it.
        goes_on = not empty and number is not None and (same or start < word.end)
        if goes_on and not any(map(str.isspace, text[word.end : start])):
            word = word._replace(end=max(word.end, end))
            continue
        if not empty:
            yield word
        # Where a space is a piece of its own, the word behind it has that piece's label.
        first_piece = word.token if same and empty and start == first else token
        word, last = Word(first_piece, start, end if number is not None else start), number
    if word.start < word.end:
        yield word


def _with_marks(text: str, end: int) -> int:
    """Move ``end`` behind the marks at it: some tokenizers remove accents and vowel signs."""
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return end


def join_words(spans: Sequence[TaggedSpan]) -> Iterator[TaggedSpan]:
    """Join consecutive words with the same label, which loses its ``B-`` or ``I-``; a ``B-`` begins a new span."""
    joined: TaggedSpan | None = None
    for span in spans:
        name = span.label[2:] if span.label.startswith(("B-", "I-")) else span.label
        if joined and joined.label == name and not span.label.startswith("B-"):
            joined = joined._replace(end=span.end, score=joined.score + span.score, words=joined.words + 1)
            continue
        if joined:
            yield joined
        joined = span._replace(label=name)
    if joined:
        yield joined


def _number(score: float) -> float | None:
    """Round to nine digits, which are all that float32 has; None for infinity and NaN."""
    return float(format(score, ".9g")) if math.isfinite(score) else None
