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

from builder.importers.strings.regex import NotTranslatedError, Parser, Part, bounded

_CHARACTER = Part("", 1, plain=True)
_PLACE = re.compile(r"\\[AbBGzZ]|[$^]")
_ESCAPE = re.compile(r"[dDsSwWhHtnrfvae]|[pP]\{\^?\w+\}|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^\w\s]")
_GROUP = re.compile(
    r"(?P<look>\?<?[=!])|\?[im]*(?:-[im]+)?(?P<rest>\))|\?(?:[im]*(?:-[im]+)?:|>|<[A-Za-z_]\w*>)|(?!\?)"
)
_LONGEST_FORM = 18
"""Characters that one may become where Unicode is normalised: U+FDFA does."""
_SPACES = re.compile(r"(?:\\s\*\[\\r\\n\]\+?\|)?\\s\+\(\?!\\S\)\|\\s\+$")
"""The end of the patterns of GPT-2 and its successors: the next alternative takes what one has looked at in vain."""


def measure(normalizer: Any, pre_tokenizer: Any) -> dict[str, Any]:
    """Measure what these parts of a tokenizer.json do to a text's length and time, for handler/text/subwords.py.

    Raises ValueError where the time has no bound.
    """
    growth = prod(max(1, len(step["content"])) for step in _steps(normalizer) if "content" in step)
    composes = any(step["type"] in ("NFKC", "NFKD", "Precompiled") for step in _steps(normalizer))
    longest = growth * (_LONGEST_FORM if composes else 1)
    patterns = [step["pattern"] for part in (normalizer, pre_tokenizer) for step in _steps(part) if "pattern" in step]
    costs = {one["Regex"]: search_cost(one["Regex"]) for one in patterns if "Regex" in one}
    return {
        "growth": growth,
        "cost": longest * sum(cost for cost, _ in costs.values()),
        "slope": longest**2 * sum(slope for _, slope in costs.values()),
        "slowest": max(costs, key=lambda pattern: costs[pattern][::-1], default=""),
    }


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """``part``, which may be none, or all in a sequence of them."""
    inner = part and (part.get("normalizers") or part.get("pretokenizers"))
    if inner:
        for one in inner:
            yield from _steps(one)
    elif part:
        yield part


def search_cost(pattern: str) -> tuple[int, int]:
    """The cost and slope of ``pattern``, as in ``Translated``. Raises ValueError where its time has no such bound."""
    try:
        return bounded(_Oniguruma(_SPACES.sub(r"\\s+", pattern)).parsed().last)
    except NotTranslatedError as error:
        raise ValueError(
            f"its pattern {pattern!r} has what may take too long for some texts, or is not known here: {error}. Write "
            "the pattern without it, or use another tokenizer"
        ) from error


class _Oniguruma(Parser):
    """Parts have no ``text``: nothing is translated."""

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self.pattern, self.at)
        self.at = found.end() if found else self.at
        return found

    def _repeated(self) -> Part:
        part = super()._repeated()
        if re.compile(r"\{[0-9,]").match(self.pattern, self.at):
            raise NotTranslatedError("a repeat of a repeat, or of too many")
        return part

    def _bounds(self) -> tuple[int, int | None] | None:
        bounds = super()._bounds()
        if bounds and self.pattern[self.at - 1] in "*+?":
            self._take("+")  # it never gives back what it has: there are fewer ways
        return bounds

    def _atom(self) -> Part:
        if self._match(_PLACE):
            return Part("", 0)
        character = self._next()
        if character == "(":
            return self._group()
        if character in "*+?":
            raise NotTranslatedError(f"a {character} with nothing before it")
        if character == "[":
            self._skip_set()
        elif character == "\\" and not self._match(_ESCAPE):
            raise NotTranslatedError(f"\\{self._next()}")
        return _CHARACTER

    def _group(self) -> Part:
        start = self._match(_GROUP)
        if start is None:
            raise NotTranslatedError(f"the group ({self.pattern[self.at : self.at + 3]}")
        inner = self.alternatives()
        if not start["rest"] and not self._take(")"):
            raise NotTranslatedError("a ( without a )")
        return Part("", 0, cost=inner.last, last=inner.last) if start["look"] else replace(inner, text="")

    def _skip_set(self) -> None:
        """Go behind a set, in which there may be others. A ] that comes first is one of its characters."""
        self._take("^")
        self._take("]")
        depth = 1
        while depth:
            character = self._next()
            if character == "\\":
                self._next()
            depth += (character == "[") - (character == "]")
