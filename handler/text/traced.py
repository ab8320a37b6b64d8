"""Where the words stand that a model makes of a text: the steps up to its splitting once more, with each character's
place.

Imported for models of words whose answers are of them. Each step is the op of that name in strings.py, on text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..budget import LARGEST, LOCATED_TOKEN, TRACED_CHARACTER, Limits
from ..deadline import require_time
from ..tuples import NamedTuple
from ..typed import Any
from . import Located, Place
from .strings import compiled, written

_SPACE = " \t\n\r\v\f"
"""What ASCII calls so."""
_WORD = re.compile(rf"[^{_SPACE}]+")


class Traced(NamedTuple):
    """``text``, and of each of its characters where that begins and ends which it was made of, in the text as sent."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def part(self, start: int, end: int) -> Traced:
        return Traced(self.text[start:end], self.starts[start:end], self.ends[start:end])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters ``start`` to ``end``, at least one, come from."""
        return self.starts[start], self.ends[end - 1]


class Tokens(NamedTuple):
    """What finds the words of a text in the input ``source``: ``steps``, and ``split`` behind them. ``feed``: the one
    that has a number for each.
    """

    source: str
    feed: str
    steps: tuple[Callable[[Traced], Traced], ...]
    split: Callable[[Traced], list[tuple[int, int]]]

    def places(
        self, text: str, most: int, limits: Limits = LARGEST, seconds_left: Callable[[], float] = lambda: 1.0
    ) -> list[Place]:
        """Return where the first ``most`` words stand. Raises OverBudgetError, OutOfTimeError."""
        traced = Traced(text, range(len(text)), range(1, len(text) + 1))
        for step in self.steps:
            require_time(seconds_left)
            traced = step(traced)
            limits.require_memory(TRACED_CHARACTER * len(traced.text))
        return [Place(number, *traced.span(*word)) for number, word in enumerate(self.split(traced)[:most])]

    def located(
        self, texts: Sequence[bytes], most: int, limits: Limits, seconds_left: Callable[[], float]
    ) -> tuple[Located, ...]:
        """Each of ``texts``, valid UTF-8, with its first ``most`` words. Raises OverBudgetError, OutOfTimeError."""
        words = sum(min(len(text) // 2 + 1, most) for text in texts)
        limits.require_memory(LOCATED_TOKEN * words + TRACED_CHARACTER * max(map(len, texts)))
        found = []
        for text in texts:
            require_time(seconds_left)
            sent = text.decode()
            found.append(Located(sent, self.places(sent, most, limits, seconds_left)))
        return tuple(found)


def _cased(
    of_ascii: Callable[[bytes], bytes], of_text: Callable[[str], str], traced: Traced, *, encoding: str = ""
) -> Traced:
    """A letter may become several. Where the encoding is utf-8, TensorFlow's text ends at the first NUL."""
    if encoding != "utf-8":
        return traced._replace(text=of_ascii(traced.text.encode()).decode())
    traced = traced.part(0, len(traced.text.partition("\0")[0]))
    text = of_text(traced.text)
    if len(text) == len(traced.text):
        return traced._replace(text=text)
    sizes = [len(of_text(letter)) for letter in traced.text]
    starts, ends = (
        [place for place, size in zip(places, sizes, strict=True) for _ in range(size)]
        for places in (traced.starts, traced.ends)
    )
    return Traced(text, starts, ends)


def _strip(traced: Traced) -> Traced:
    first = len(traced.text) - len(traced.text.lstrip(_SPACE))
    return traced.part(first, max(first, len(traced.text.rstrip(_SPACE))))


def _replace(
    traced: Traced, *, pattern: re.Pattern[str], rewrite: Sequence[str | int], everywhere: bool, cost: int, slope: int
) -> Traced:
    """What is written in the place of a match comes from all of it. No pattern of the builder's matches nothing."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    replaced = written(rewrite)
    for match in pattern.finditer(traced.text):
        start, end = match.span()
        kept, text = traced.part(at, start), replaced(match)
        parts += kept.text, text
        starts += kept.starts
        ends += kept.ends
        if text:
            first, last = traced.span(start, end)
            starts += [first] * len(text)
            ends += [last] * len(text)
        at = end
        if not everywhere:
            break
    rest = traced.part(at, len(traced.text))
    return Traced("".join([*parts, rest.text]), [*starts, *rest.starts], [*ends, *rest.ends])


def _split(traced: Traced) -> list[tuple[int, int]]:
    return [match.span() for match in _WORD.finditer(traced.text)]


def _characters(traced: Traced) -> list[tuple[int, int]]:
    return [(at, at + 1) for at in range(len(traced.text))]


_STEPS: Mapping[str, Callable[..., Traced]] = {
    "RegexReplace": _replace,
    "StringLower": partial(_cased, bytes.lower, str.lower),
    "StringStrip": _strip,
    "StringUpper": partial(_cased, bytes.upper, str.upper),
}
_SPLITS: Mapping[str, Callable[[Traced], list[tuple[int, int]]]] = {
    "StringSplitV2": _split,
    "UnicodeDecode": _characters,
}

STEPS, SPLITS = frozenset(_STEPS), frozenset(_SPLITS)
"""Ops that may stand before the one that splits, and those that split: at white space, and into characters."""


def read(one: Mapping[str, Any]) -> Tokens:
    """``one``: "source", "feed", "steps" with "op" and attributes as in words.py, and "split", an op.

    Raises LookupError, TypeError.
    """
    return Tokens(one["source"], one["feed"], tuple(map(_step, one["steps"])), _SPLITS[one["split"]])


def _step(one: Mapping[str, Any]) -> Callable[[Traced], Traced]:
    attributes = {key: value for key, value in one.items() if key != "op"}
    if "pattern" in attributes:
        attributes = compiled(attributes)
    return partial(_STEPS[one["op"]], **attributes)
