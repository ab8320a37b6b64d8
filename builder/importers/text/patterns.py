"""Bound the time of a tokenizer's regular expressions: Oniguruma tries one way after another, as ``re`` does.

Nothing stops a search in the function, and where it takes ten million steps at one place, the package panics. So they
are judged like those of a model's graph. Syntax: https://github.com/kkos/oniguruma/blob/master/doc/RE
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
"""Characters that one may become where Unicode is normalised: U+FDFA does."""
_SPACES = re.compile(r"(?:\\s\*\[\\r\\n\]\+?\|)?\\s\+\(\?!\\S\)\|\\s\+$")
"""The end of the patterns of GPT-2 and its successors: the next alternative takes what one has looked at in vain."""


def measure_limits(normalizer: Any, pre_tokenizer: Any) -> dict[str, Any]:
    """Measure what these parts of a tokenizer.json do to a text's length and time, for handler/text/subwords.py.

    Raises ValueError where the time has no bound.
    """
    growth = prod(max(1, len(step["content"])) for step in _iterate_steps(normalizer) if "content" in step)
    composes = any(step["type"] in ("NFKC", "NFKD", "Precompiled") for step in _iterate_steps(normalizer))
    longest = growth * (_LONGEST_FORM if composes else 1)
    patterns = [
        step["pattern"] for part in (normalizer, pre_tokenizer) for step in _iterate_steps(part) if "pattern" in step
    ]
    costs = {one["Regex"]: search_cost(one["Regex"]) for one in patterns if "Regex" in one}
    return {
        "growth": growth,
        "cost": longest * sum(cost for cost, _ in costs.values()),
        "slope": longest**2 * sum(slope for _, slope in costs.values()),
        "slowest": max(costs, key=lambda pattern: costs[pattern][::-1], default=""),
    }


def _iterate_steps(part: Any) -> Iterator[dict[str, Any]]:
    """``part``, which may be none, or all in a sequence of them."""
    inner = part and (part.get("normalizers") or part.get("pretokenizers"))
    if inner:
        for one in inner:
            yield from _iterate_steps(one)
    elif part:
        yield part


def search_cost(pattern: str) -> tuple[int, int]:
    """The cost and slope of ``pattern``, as in ``Translated``. Raises ValueError where its time has no such bound."""
    try:
        return bound_comparisons(_Oniguruma(_SPACES.sub(r"\\s+", pattern)).parse_pattern().last)
    except NotTranslatedError as error:
        raise ValueError(
            f"its pattern {pattern!r} has what may take too long for some texts, or is not known here: {error}. Write "
            "the pattern without it, or use another tokenizer"
        ) from error


class _Oniguruma(RegexParser):
    """Parts have no ``text``: nothing is translated."""

    def _match_next(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self.pattern, self.at)
        self.at = found.end() if found else self.at
        return found

    def _parse_repeat(self) -> PatternPart:
        part = super()._parse_repeat()
        if re.compile(r"\{[0-9,]").match(self.pattern, self.at):
            raise NotTranslatedError("a repeat of a repeat, or of too many")
        return part

    def _parse_bounds(self) -> tuple[int, int | None] | None:
        bounds = super()._parse_bounds()
        if bounds and self.pattern[self.at - 1] in "*+?":
            self._take_if_next("+")  # it never gives back what it has: there are fewer ways
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
        """Go behind a set, in which there may be others. A ] that comes first is one of its characters."""
        self._take_if_next("^")
        self._take_if_next("]")
        depth = 1
        while depth:
            character = self._take_character()
            if character == "\\":
                self._take_character()
            depth += (character == "[") - (character == "]")
