r"""Translates regular expressions of RE2 to Python's if both provably match the same in valid UTF-8 text.

TensorFlow's ops use RE2 with its defaults: code points of UTF-8, leftmost-first like Perl. Python's ``re`` follows the
same rule, but by backtracking, whose time grows with a power of the text's length, or worse. So only patterns with a
bounded time are translated: only one character of a set, or a fixed string of such characters, may be repeated, and at
most one repeat may be unbounded where a match may still fail. The number of compared characters is a polynomial of the
text's length (``Growth``). Sets are written as ranges, since ``\s``, ``\w`` and ``$`` differ between both. Syntax:
https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import reduce

Growth = tuple[int, int, int]
"""A count that grows with the text's length n: the constant part, the part per n, and whether it grows faster."""

Ranges = tuple[tuple[int, int], ...]
"""First and last code points of ranges, in ascending order, with gaps between them."""

LAST = 0x10FFFF
MOST_WAYS = 256
"""The largest number of ways in which bounded repeats may match at one place."""
_NOTHING: Growth = (0, 0, 0)
_ONE: Growth = (1, 0, 0)

_NAMED: dict[str, Ranges] = {
    "d": ((0x30, 0x39),),
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((0x30, 0x39),),
    "graph": ((33, 126),),
    "lower": ((0x61, 0x7A),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((0x41, 0x5A),),
    "word": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CONTROL = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_PLACES = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"\B"}


class NotTranslatedError(Exception):
    """The reason why a pattern is not translated."""


@dataclass(frozen=True)
class TranslatedPattern:
    """A pattern for ``re`` with the flag ASCII, over str, and the number of its capturing groups.

    ``cost`` and ``slope``: a text of n characters takes at most cost·n + slope·n² comparisons of one.
    """

    pattern: str
    groups: int
    cost: int
    slope: int


@dataclass(frozen=True)
class PatternPart:
    """A translated part of a pattern (``text``); ``width`` is its least number of characters.

    ``plain``: whether it is a fixed string of ``width`` sets. ``ways``: the number of ways to match at one place.
    ``cost``: the comparisons there until all ways have failed. ``last``: the same if nothing that may fail follows, so
    that the first way is taken. ``sure``: whether it always matches, perhaps nothing.
    """

    text: str
    width: int
    plain: bool = False
    ways: Growth = _ONE
    cost: Growth = _ONE
    last: Growth = _ONE
    sure: bool = False
    captures: bool = False


def _add_growth(a: Growth, b: Growth) -> Growth:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _multiply_growth(a: Growth, b: Growth) -> Growth:
    return a[0] * b[0], a[0] * b[1] + a[1] * b[0], a[1] * b[1] + a[2] * sum(b) + b[2] * sum(a)


def translate_pattern(pattern: str, *, whole: bool = False) -> TranslatedPattern:
    """Translate ``pattern``, to match a ``whole`` text (perhaps empty) or to search. Raises NotTranslatedError."""
    parser = RegexParser(pattern)
    part = parser.parse_pattern()
    if part.width == 0 and not whole:
        raise NotTranslatedError("it may match nothing, and Python goes on elsewhere than RE2 after an empty match")
    at_one_place = bound_comparisons(part.cost if whole else part.last)
    # A whole text is tried at one place only, and no way compares more than the whole text.
    cost, slope = (part.ways[0] + at_one_place[1], 0) if whole else at_one_place
    return TranslatedPattern(part.text, parser.groups, cost, slope)


def bound_comparisons(comparisons: Growth) -> tuple[int, int]:
    """Return the comparisons at one place, without and per character after it. Raises NotTranslatedError."""
    if comparisons[2]:
        raise NotTranslatedError("two repeats without an end, one after the other")
    return comparisons[:2]


def parse_rewrite(rewrite: str, groups: int) -> list[str | int]:
    """Return the pieces of RE2's rewrite string: texts, and numbers of groups. Raises NotTranslatedError."""
    parts: list[str | int] = []
    for text, backslash, escaped in re.findall(r"([^\\]+)|(\\)(.?)", rewrite, re.DOTALL):
        if text or escaped == "\\":
            parts.append(text or "\\")
        elif not (escaped.isascii() and escaped.isdigit()) or int(escaped) > groups:
            raise NotTranslatedError(f"{backslash}{escaped} in its rewrite")
        else:
            parts.append(int(escaped))
    return parts


class RegexParser:
    """A parser that translates a pattern in RE2's syntax. Its methods raise NotTranslatedError."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.groups, self.depth = pattern, 0, 0, 0

    def _is_next(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def _take_if_next(self, text: str) -> bool:
        matches = self._is_next(text)
        self.at += len(text) if matches else 0
        return matches

    def _take_character(self) -> str:
        if self.at >= len(self.pattern):
            raise NotTranslatedError("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def parse_pattern(self) -> PatternPart:
        """Parse the whole pattern."""
        part = self.parse_alternatives()
        if self.at < len(self.pattern):
            raise NotTranslatedError("a ) without a (")
        return part

    def parse_alternatives(self) -> PatternPart:
        """Parse sequences with | between them, up to a ) or the end."""
        self.depth += 1
        if self.depth > 50:
            raise NotTranslatedError("groups within groups, too deep")
        parts = [self._parse_sequence()]
        while self._take_if_next("|"):
            parts.append(self._parse_sequence())
        self.depth -= 1
        if len(parts) == 1:
            return parts[0]
        return PatternPart(
            "|".join(part.text for part in parts),
            min(part.width for part in parts),
            ways=reduce(_add_growth, (part.ways for part in parts)),
            cost=reduce(_add_growth, (part.cost for part in parts)),
            last=reduce(_add_growth, (part.last for part in parts)),
            sure=any(part.sure for part in parts),
            captures=any(part.captures for part in parts),
        )

    def _parse_sequence(self) -> PatternPart:
        parts: list[PatternPart] = []
        while self.at < len(self.pattern) and not self._is_next("|") and not self._is_next(")"):
            parts.append(self._parse_repeat())
        unsure = max((at for at, part in enumerate(parts, 1) if not part.sure), default=0)
        ways, cost, last = _ONE, _NOTHING, _NOTHING
        for at, part in enumerate(parts, 1):
            # A part after the last one that may fail is tried once.
            last = _add_growth(
                last, part.last if at > unsure else _multiply_growth(ways, part.last if at == unsure else part.cost)
            )
            cost = _add_growth(cost, _multiply_growth(ways, part.cost))
            ways = _multiply_growth(ways, part.ways)
        if max(ways) > MOST_WAYS:
            raise NotTranslatedError("too many repeats one after the other")
        return PatternPart(
            "".join(part.text for part in parts),
            sum(part.width for part in parts),
            all(part.plain for part in parts),
            ways,
            cost,
            last,
            sure=not unsure,
            captures=any(part.captures for part in parts),
        )

    def _parse_repeat(self) -> PatternPart:
        part = self._parse_atom()
        bounds = self._parse_bounds()
        if bounds is None:
            return part
        least, most = bounds
        lazy = "?" if self._take_if_next("?") else ""
        if self.at < len(self.pattern) and self.pattern[self.at] in "*+?":
            raise NotTranslatedError("a repeat of a repeat")
        if not part.width or part.captures or not (part.plain or most == 1):
            raise NotTranslatedError("a repeat of more than one character of a set, or a fixed string of such")
        text = f"{part.text}{{{least},{'' if most is None else most}}}{lazy}"
        width, sure = part.width * least, least == 0
        if most is None:
            return PatternPart(text, width, False, (1, 1, 0), (width, 1, 0), (width, 0, 0), sure=sure)
        if not part.plain:
            return replace(
                part, text=text, width=width, ways=_add_growth(part.ways, (sure, 0, 0)), sure=sure or part.sure
            )
        cost = part.width * most, 0, 0
        return PatternPart(text, width, most == least, (most - least + 1, 0, 0), cost, cost, sure=sure)

    def _parse_bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take_if_next(sign):
                return bounds
        repeat = re.compile(r"\{([0-9]{1,4})(,([0-9]{1,4})?)?\}").match(self.pattern, self.at)
        if repeat is None:
            return None
        self.at = repeat.end()
        least = int(repeat[1])
        most = int(repeat[3]) if repeat[3] else None if repeat[2] else least
        if least > 1000 or (most is not None and not least <= most <= 1000):
            raise NotTranslatedError(f"the repeat {repeat[0]}")
        return least, most

    def _parse_atom(self) -> PatternPart:
        character = self._take_character()
        if character == "(":
            return self._parse_group()
        if character == "[":
            return _make_set(self._parse_class())
        if character == ".":
            return _make_set(_negate_ranges(((10, 10),)))
        if character in "^$":
            return PatternPart(r"\A" if character == "^" else r"\Z", 0)
        if character in "*+?":
            raise NotTranslatedError(f"a {character} with nothing before it")
        if character == "\\":
            if self.at < len(self.pattern) and self.pattern[self.at] in _PLACES:
                return PatternPart(_PLACES[self._take_character()], 0)
            return _make_set(self._parse_escape())
        return _make_set(((ord(character), ord(character)),))

    def _parse_group(self) -> PatternPart:
        captures = not self._take_if_next("?:")
        if captures and self._is_next("?"):
            raise NotTranslatedError("a group with (?, other than (?:")
        self.groups += captures
        inner = self.parse_alternatives()
        if not self._take_if_next(")"):
            raise NotTranslatedError("a ( without a )")
        text = f"({'' if captures else '?:'}{inner.text})"
        return replace(inner, text=text, captures=captures or inner.captures)

    def _parse_escape(self) -> Ranges:
        character = self._take_character()
        if character.lower() in ("d", "s", "w"):
            ranges = _NAMED[character.lower()]
            return ranges if character.islower() else _negate_ranges(ranges)
        if character in _CONTROL:
            return ((_CONTROL[character],) * 2,)
        if character == "x":
            hexadecimal = re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\}").match(self.pattern, self.at)
            if hexadecimal is None or (point := int(hexadecimal[1] or hexadecimal[2], 16)) > LAST:
                raise NotTranslatedError("\\x without a number that is a character")
            self.at = hexadecimal.end()
            return ((point, point),)
        if character.isascii() and not character.isalnum() and character != "_":
            return ((ord(character), ord(character)),)
        raise NotTranslatedError(f"\\{character}")

    def _parse_class(self) -> Ranges:
        negative = self._take_if_next("^")
        members: list[tuple[int, int]] = []
        first = True
        while first or not self._is_next("]"):
            first = False
            if self._is_next("[:"):
                end = self.pattern.find(":]", self.at)
                name = self.pattern[self.at + 2 : end] if end > 0 else ""
                if name.removeprefix("^") not in _NAMED or len(name) < 2:
                    raise NotTranslatedError("a [: without the name of a class")
                self.at = end + 2
                class_ranges = _NAMED[name.removeprefix("^")]
                members += _negate_ranges(class_ranges) if name.startswith("^") else class_ranges
                continue
            low = self._parse_member()
            if self._is_next("-") and not self._is_next("-]"):
                self._take_character()
                high = self._parse_member()
                if len(low) > 1 or len(high) > 1 or low[0][0] != low[0][1] or high[0][0] < low[0][0]:
                    raise NotTranslatedError("a range in [] that is not valid")
                low = ((low[0][0], high[0][0]),)
            members += low
        self._take_character()
        ranges = _join_ranges(members)
        return _negate_ranges(ranges) if negative else ranges

    def _parse_member(self) -> Ranges:
        character = self._take_character()
        return self._parse_escape() if character == "\\" else ((ord(character), ord(character)),)


def _join_ranges(ranges: list[tuple[int, int]]) -> Ranges:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(high, result[-1][1])
        else:
            result.append((low, high))
    return tuple(result)


def _negate_ranges(ranges: Ranges) -> Ranges:
    result, start = [], 0
    for low, high in _join_ranges(list(ranges)):
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    return (*result, (start, LAST)) if start <= LAST else tuple(result)


def _make_set(ranges: Ranges) -> PatternPart:
    if not ranges:
        raise NotTranslatedError("a class of no character")
    text = "".join(
        _escape_character(low) if low == high else f"{_escape_character(low)}-{_escape_character(high)}"
        for low, high in ranges
    )
    alone = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return PatternPart(text if alone else f"[{text}]", 1, plain=True)


def _escape_character(point: int) -> str:
    character = chr(point)
    if character.isascii() and character.isalnum():
        return character
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}" if point < 65536 else f"\\U{point:08x}"
