"""Names of feeds and fetches, from where they stand in a function's arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builder.importers.loaded import make_names_unique


def distinct_names(paths: Sequence[Sequence[Any]], kind: str) -> list[str]:
    """One name for each path, all different once written in C: its keys, and ``kind`` where there are only numbers.

    ``kind`` alone for the only one: "input", "output". A key that is no text is a position.
    """
    if len(paths) == 1 and not any(isinstance(key, str) for key in paths[0]):
        return [kind]
    names = []
    for number, path in enumerate(paths):
        words = [key for key in path if isinstance(key, str)]
        numbers = [str(_read_position(key, number)) for key in path if not isinstance(key, str)]
        names.append("_".join([*words, *numbers] if words else [kind, *(numbers or [str(number)])]))
    return make_names_unique(names)


def _read_position(key: Any, default: int) -> int:
    """The position that a key of a sequence stands for."""
    found = getattr(key, "idx", key)
    return found if isinstance(found, int) else default
