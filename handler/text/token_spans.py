"""The places in a text of the words that a model splits it into.

The steps up to the splitting are run once more, and keep each character's place. The module is imported for models
whose answers label words. Each step is the op of that name in strings.py, on text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..budget import LARGEST, LOCATED_TOKEN, TRACED_CHARACTER, RequestLimits
from ..deadline import require_time
from ..named_tuples import NamedTuple
from ..typed import Any
from . import LocatedText, TokenPlace
from .strings import compile_pattern, make_replacement

_SPACE = " \t\n\r\v\f"
"""The white space of ASCII."""
_WORD = re.compile(rf"[^{_SPACE}]+")


class TracedText(NamedTuple):
    """A text with the place of each character's origin, ``starts`` to ``ends``, in the text as it was sent."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def take_part(self, start: int, end: int) -> TracedText:
        """Return the characters ``start`` to ``end``."""
        return TracedText(self.text[start:end], self.starts[start:end], self.ends[start:end])

    def find_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the place of the origin of the characters ``start`` to ``end``, at least one."""
        return self.starts[start], self.ends[end - 1]


class WordFinder(NamedTuple):
    """A finder of the words in texts of the input ``source``, by ``steps`` and then ``split``.

    ``feed``: the name of the feed that has a number for each word.
    """

    source: str
    feed: str
    steps: tuple[Callable[[TracedText], TracedText], ...]
    split: Callable[[TracedText], list[tuple[int, int]]]

    def find_places(
        self, text: str, most: int, limits: RequestLimits = LARGEST, seconds_left: Callable[[], float] = lambda: 1.0
    ) -> list[TokenPlace]:
        """Return the places of the first ``most`` words. Raises OverBudgetError, OutOfTimeError."""
        traced = TracedText(text, range(len(text)), range(1, len(text) + 1))
        for step in self.steps:
            require_time(seconds_left)
            traced = step(traced)
            limits.require_memory(TRACED_CHARACTER * len(traced.text))
        return [TokenPlace(number, *traced.find_span(*word)) for number, word in enumerate(self.split(traced)[:most])]

    def locate_words(
        self, texts: Sequence[bytes], most: int, limits: RequestLimits, seconds_left: Callable[[], float]
    ) -> tuple[LocatedText, ...]:
        """Locate the first ``most`` words in each of ``texts``, valid UTF-8. Raises OverBudgetError, OutOfTimeError."""
        words = sum(min(len(text) // 2 + 1, most) for text in texts)
        limits.require_memory(LOCATED_TOKEN * words + TRACED_CHARACTER * max(map(len, texts)))
        located = []
        for text in texts:
            require_time(seconds_left)
            sent = text.decode()
            located.append(LocatedText(sent, self.find_places(sent, most, limits, seconds_left)))
        return tuple(located)


def _change_case(
    of_ascii: Callable[[bytes], bytes], of_text: Callable[[str], str], traced: TracedText, *, encoding: str = ""
) -> TracedText:
    """Change the case; a letter may become several. With utf-8, TensorFlow's text ends at the first NUL."""
    if encoding != "utf-8":
        return traced._replace(text=of_ascii(traced.text.encode()).decode())
    traced = traced.take_part(0, len(traced.text.partition("\0")[0]))
    text = of_text(traced.text)
    if len(text) == len(traced.text):
        return traced._replace(text=text)
    sizes = [len(of_text(letter)) for letter in traced.text]
    starts, ends = (
        [place for place, size in zip(places, sizes, strict=True) for _ in range(size)]
        for places in (traced.starts, traced.ends)
    )
    return TracedText(text, starts, ends)


def _strip_text(traced: TracedText) -> TracedText:
    first = len(traced.text) - len(traced.text.lstrip(_SPACE))
    return traced.take_part(first, max(first, len(traced.text.rstrip(_SPACE))))


def _replace_matches(
    traced: TracedText,
    *,
    pattern: re.Pattern[str],
    rewrite: Sequence[str | int],
    everywhere: bool,
    cost: int,
    slope: int,
) -> TracedText:
    """Replace matches; the origin of a replacement is the whole match. No pattern of the builder matches nothing."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    replacement = make_replacement(rewrite)
    for match in pattern.finditer(traced.text):
        start, end = match.span()
        kept, text = traced.take_part(at, start), replacement(match)
        parts += kept.text, text
        starts += kept.starts
        ends += kept.ends
        if text:
            first, last = traced.find_span(start, end)
            starts += [first] * len(text)
            ends += [last] * len(text)
        at = end
        if not everywhere:
            break
    rest = traced.take_part(at, len(traced.text))
    return TracedText("".join([*parts, rest.text]), [*starts, *rest.starts], [*ends, *rest.ends])


_STEPS: Mapping[str, Callable[..., TracedText]] = {
    "RegexReplace": _replace_matches,
    "StringLower": partial(_change_case, bytes.lower, str.lower),
    "StringStrip": _strip_text,
    "StringUpper": partial(_change_case, bytes.upper, str.upper),
}
_SPLITS: Mapping[str, Callable[[TracedText], list[tuple[int, int]]]] = {
    "StringSplitV2": lambda traced: [match.span() for match in _WORD.finditer(traced.text)],
    "UnicodeDecode": lambda traced: [(at, at + 1) for at in range(len(traced.text))],
}

STEPS, SPLITS = frozenset(_STEPS), frozenset(_SPLITS)
"""The ops that may come before the splitting, and those that split: at white space, and into characters."""


def parse_finder(one: Mapping[str, Any]) -> WordFinder:
    """Make a finder of ``one``, the "tokens" of a file. Raises LookupError, TypeError.

    It has "source", "feed", "steps" with "op" and attributes as in words.py, and "split", an op.
    """
    return WordFinder(one["source"], one["feed"], tuple(map(_make_step, one["steps"])), _SPLITS[one["split"]])


def _make_step(one: Mapping[str, Any]) -> Callable[[TracedText], TracedText]:
    attributes = compile_pattern({key: value for key, value in one.items() if key != "op"})
    return partial(_STEPS[one["op"]], **attributes)
