"""Kinds of values in ``model.toml``: each kind checks a TOML value, describes the valid ones, and converts it.

``find_problems(value)`` yields ``(path inside the value, what is wrong; what would be right)``; ``convert_value``
gets only values without problems.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from builder.base.commands import find_similar_names
from builder.base.escape import escape_invisible

Problem = tuple[tuple[int, ...], str]

_FRACTION = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?)\s*/\s*([0-9]+(?:\.[0-9]+)?)\s*")


def describe_value(value: object) -> str:
    """Describe a TOML value in words."""
    for kind, words in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "a string"),
        (list, "a list"),
        (dict, "a table"),
    ):
        if isinstance(value, kind):
            return words
    return "a date or time"


def quote_options(options: tuple[str, ...]) -> str:
    """Return ``"x", "y"``."""
    return ", ".join(f'"{option}"' for option in options)


def suggest_closest(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean "x"?)`` or nothing."""
    close = find_similar_names(word.lower(), known)
    return f' (did you mean "{close}"?)' if close else ""


class ValueKind(ABC):
    """One kind of value."""

    types: ClassVar[tuple[type, ...]]
    """Types of TOML that it may have. A bool is not an int here."""

    @property
    def says(self) -> str:
        """Description of valid values, for messages and the reference."""
        return self._describe()

    def find_problems(self, value: object) -> Iterator[Problem]:
        """Yield what is wrong with ``value``."""
        if self._accepts_type(value):
            yield from self._find_problems(value)
        else:
            yield (), f"is {describe_value(value)}; must be {self.says}"

    def convert_value(self, value: Any) -> Any:
        """Return a value without problems as the rest of coldforge takes it."""
        return value

    def _accepts_type(self, value: object) -> bool:
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))

    @abstractmethod
    def _describe(self) -> str: ...

    def _find_problems(self, _value: Any) -> Iterator[Problem]:
        return iter(())


@dataclass(frozen=True)
class StringKind(ValueKind):
    """A string that is not blank; all of it must match ``pattern``."""

    pattern: str = r"(?=.*\S)[^\x00-\x1f\x7f]*"
    meaning: str = "one line of text"
    example: str = ""
    types: ClassVar = (str,)

    def _describe(self) -> str:
        example = f', like "{self.example}"' if self.example else ""
        return f"a string: {self.meaning}{example}"

    def _find_problems(self, value: str) -> Iterator[Problem]:
        if not re.fullmatch(self.pattern, value):
            yield (), f'"{escape_invisible(value)}" cannot be used; must be {self.says}'


@dataclass(frozen=True)
class PathKind(StringKind):
    """A path, from the folder of model.toml."""

    meaning: str = "a path, from the folder of model.toml"


@dataclass(frozen=True)
class ChoiceKind(ValueKind):
    """One of a few strings."""

    options: tuple[str, ...]
    types: ClassVar = (str,)

    def _describe(self) -> str:
        return quote_options(self.options) if len(self.options) == 1 else f"one of {quote_options(self.options)}"

    def _find_problems(self, value: str) -> Iterator[Problem]:
        if value not in self.options:
            closest = suggest_closest(value, self.options)
            yield (), f'"{escape_invisible(value)}" is not known; must be {self.says}{closest}'


@dataclass(frozen=True)
class IntegerKind(ValueKind):
    """A whole number in a range, both ends included."""

    low: int
    high: int
    types: ClassVar = (int,)

    def _describe(self) -> str:
        return f"a whole number from {self.low} to {self.high if self.high < 100_000 else f'{self.high:_}'}"

    def _find_problems(self, value: int) -> Iterator[Problem]:
        if not self.low <= value <= self.high:
            yield (), f"{value} is out of range; must be {self.says}"


@dataclass(frozen=True)
class NumberKind(ValueKind):
    """A finite number in a range, both ends included; with ``fraction`` also a string like "1/255"."""

    low: float
    high: float
    zero: bool = True
    fraction: bool = False
    types: ClassVar = (int, float)

    def _accepts_type(self, value: object) -> bool:
        return super()._accepts_type(value) or (self.fraction and isinstance(value, str))

    def _describe(self) -> str:
        words = "a number" if self.zero else "a number other than 0"
        words += f" from {self.low:g} to {self.high:g}".replace("e+0", "e") if self.low == 0 else ""
        return words + (', or a fraction in quotes like "1/255"' if self.fraction else "")

    def _find_problems(self, value: Any) -> Iterator[Problem]:
        if isinstance(value, str) and not _FRACTION.fullmatch(value):
            yield (), f'"{escape_invisible(value)}" is not a fraction; must be {self.says}'
            return
        try:
            number = self.convert_value(value)
        except (ZeroDivisionError, OverflowError):
            number = math.nan
        # NaN fails this comparison with any range.
        if not self.low <= number <= self.high or (not self.zero and number == 0):
            limits = f"{self.low:g} to {self.high:g}".replace("e+", "e")
            yield (), f"{value} is out of range ({limits}); must be {self.says}"

    def convert_value(self, value: Any) -> float:
        """Return it as a float."""
        if isinstance(value, str):
            numerator, denominator = map(float, value.split("/"))
            return numerator / denominator
        return float(value)


@dataclass(frozen=True)
class FlagKind(ValueKind):
    """true or false."""

    types: ClassVar = (bool,)

    def _describe(self) -> str:
        return "true or false"

    def find_problems(self, value: object) -> Iterator[Problem]:
        """Yield that it is neither."""
        for place, problem in super().find_problems(value):
            yield place, f"{problem}, without quotes"


@dataclass(frozen=True)
class ScalarKind(ValueKind):
    """A number of any kind, or true or false."""

    types: ClassVar = (int, float, bool)

    def _describe(self) -> str:
        return "a number, or true or false"


@dataclass(frozen=True)
class NamedTextsKind(ValueKind):
    """A table of texts by name; its value is the pairs of both."""

    example: str = ""
    types: ClassVar = (dict,)

    def _describe(self) -> str:
        return f"a table of strings, like {self.example}"

    def _find_problems(self, value: dict[str, Any]) -> Iterator[Problem]:
        if not value:
            yield (), f"is empty; must be {self.says}"
        for name, text in value.items():
            yield from StringKind().find_problems(name)
            if not isinstance(text, str):
                yield (), f"{escape_invisible(name)} is {describe_value(text)}; must be {self.says}"

    def convert_value(self, value: dict[str, str]) -> tuple[tuple[str, str], ...]:
        """Return it as pairs of a name and a text."""
        return tuple(value.items())


@dataclass(frozen=True)
class ListKind(ValueKind):
    """A list of one kind, ``most`` at most; ``lone`` also takes a single value without brackets."""

    of: ValueKind
    empty: bool = False
    unique: bool = False
    lone: bool = False
    several: str = "one per channel"
    most: int | None = None
    types: ClassVar = (list,)

    def _describe(self) -> str:
        each = self.of.says
        return f"{each}; or a list of them, {self.several}" if self.lone else f"a list, each {each}"

    def find_problems(self, value: object) -> Iterator[Problem]:
        """Yield what is wrong with a list, or with a single value without brackets."""
        alone = self.lone and not isinstance(value, list)
        yield from self.of.find_problems(value) if alone else super().find_problems(value)

    def _find_problems(self, value: list[Any]) -> Iterator[Problem]:
        if not value and not self.empty:
            yield (), f"is empty; must be {self.says}"
        if self.most is not None and len(value) > self.most:
            yield (), f"has {len(value)} items; it may have {self.most}"
            return
        first: dict[Any, int] = {}
        for index, item in enumerate(value):
            wrong = [((index, *path), f"item {index + 1}: {problem}") for path, problem in self.of.find_problems(item)]
            yield from wrong
            if self.unique and not wrong and first.setdefault(item, index) != index:
                yield (index,), f'item {index + 1}: "{item}" is item {first[item] + 1} too; each must differ'

    def convert_value(self, value: Any) -> tuple[Any, ...]:
        """Return it as a tuple."""
        return tuple(self.of.convert_value(item) for item in (value if isinstance(value, list) else [value]))
