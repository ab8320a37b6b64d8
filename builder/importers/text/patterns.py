"""Bounds the time of a tokenizer's regular expressions, since Oniguruma backtracks as ``re`` does.

Nothing stops a search in the function, and the package panics after ten million steps at one place. So they are judged
like those of a model's graph. Syntax: https://github.com/kkos/oniguruma/blob/master/doc/RE
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from builder.importers.strings.regex import NotTranslatedError, PatternPart, RegexParser, bound_comparisons

_CHARACTER = PatternPart("", 1, plain=True)
_PLACE = re.compile(r"\\[AbBGzZ]|[$^]")
_ESCAPE = re.compile(r"[dDsSwWhHtnrfvae]|[pP]\{\^?\w+\}|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^\w\s]")
_GROUP = re.compile(
    r"(?P<look>\?<?[=!])|\?[im]*(?:-[im]+)?(?P<rest>\))|\?(?:[im]*(?:-[im]+)?:|>|<[A-Za-z_]\w*>)|(?!\?)"
)
_LONGEST_FORM = 18
"""The largest number of characters that one (U+FDFA) becomes when Unicode is normalised."""
_SPACES = re.compile(r"(?:\\s\*\[\\r\\n\]\+?\|)?\\s\+\(\?!\\S\)\|\\s\+$")
"""The end of the patterns of GPT-2 and its successors, where an alternative matches what the last one read in vain."""


def measure_limits(normalizer: Any, pre_tokenizer: Any) -> dict[str, Any]:
    """Measure the effect of these parts of a tokenizer.json on a text's length and time, for handler/text/subwords.py.

    Raises ValueError if the time is unbounded.
    """
    growth = prod(max(1, len(step["content"])) for step in _iterate_steps(normalizer) if "content" in step)
    composes = any(step["type"] in ("NFKC", "NFKD", "Precompiled") for step in _iterate_steps(normalizer))
    longest = growth * (_LONGEST_FORM if composes else 1)
    patterns = [
        step["pattern"] for part in (normalizer, pre_tokenizer) for step in _iterate_steps(part) if "pattern" in step
    ]
    costs = {regex["Regex"]: search_cost(regex["Regex"]) for regex in patterns if "Regex" in regex}
    return {
        "growth": growth,
        "cost": longest * sum(cost for cost, _ in costs.values()),
        "slope": longest**2 * sum(slope for _, slope in costs.values()),
        "slowest": max(costs, key=lambda pattern: costs[pattern][::-1], default=""),
    }


def _iterate_steps(part: Any) -> Iterator[dict[str, Any]]:
    """Yield ``part``, which may be None, or all parts in a sequence of them."""
    inner = part and (part.get("normalizers") or part.get("pretokenizers"))
    if inner:
        for step in inner:
            yield from _iterate_steps(step)
    elif part:
        yield part


def search_cost(pattern: str, *, nested: bool = True) -> tuple[int, int]:
    """Return the cost and slope of ``pattern``, as in ``TranslatedPattern``. Raises ValueError if it is unbounded.

    ``nested``: whether a set may contain others, as in Oniguruma; in Python's patterns, a [ there is a character.
    """
    try:
        return bound_comparisons(_Oniguruma(_SPACES.sub(r"\\s+", pattern), nested=nested).parse_pattern().last)
    except NotTranslatedError as error:
        raise ValueError(
            f"its pattern {pattern!r} has what may take too long for some texts, or is not known here: {error}. Write "
            "the pattern without it, or use another tokenizer"
        ) from error


class _Oniguruma(RegexParser):
    """A parser of Oniguruma's patterns that only bounds the time: its parts have no ``text``."""

    def __init__(self, pattern: str, *, nested: bool) -> None:
        super().__init__(pattern)
        self.nested = nested

    def _match_next(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self.pattern, self.at)
        self.at = match.end() if match else self.at
        return match

    def _parse_repeat(self) -> PatternPart:
        part = super()._parse_repeat()
        if re.compile(r"\{[0-9,]").match(self.pattern, self.at):
            raise NotTranslatedError("a repeat of a repeat, or of too many")
        return part

    def _parse_bounds(self) -> tuple[int, int | None] | None:
        bounds = super()._parse_bounds()
        if bounds and self.pattern[self.at - 1] in "*+?":
            self._take_if_next("+")  # A possessive repeat never backtracks, so it has fewer ways.
        return bounds

    def _parse_atom(self) -> PatternPart:
        if self._match_next(_PLACE):
            return PatternPart("", 0)
        character = self._take_character()
        if character == "(":
            return self._parse_group()
        if character in "*+?":
            raise NotTranslatedError(f"a {character} with nothing before it")
        if character == "[":
            self._skip_set()
        elif character == "\\" and not self._match_next(_ESCAPE):
            raise NotTranslatedError(f"\\{self._take_character()}")
        return _CHARACTER

    def _parse_group(self) -> PatternPart:
        start = self._match_next(_GROUP)
        if start is None:
            raise NotTranslatedError(f"the group ({self.pattern[self.at : self.at + 3]}")
        inner = self.parse_alternatives()
        if not start["rest"] and not self._take_if_next(")"):
            raise NotTranslatedError("a ( without a )")
        return PatternPart("", 0, cost=inner.last, last=inner.last) if start["look"] else replace(inner, text="")

    def _skip_set(self) -> None:
        """Skip a set, which may contain other sets; a ] at its beginning is one of its characters."""
        self._take_if_next("^")
        self._take_if_next("]")
        depth = 1
        while depth:
            character = self._take_character()
            if character == "\\":
                self._take_character()
            depth += (self.nested and character == "[") - (character == "]")
