"""Names of feeds and fetches from their positions in a function's arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builder.importers.loaded import make_names_unique


def distinct_names(paths: Sequence[Sequence[Any]], kind: str) -> list[str]:
    """Return a name for each path, made of its keys, with ``kind`` ("input", "output") if they are only numbers.

    All names differ as C identifiers. A single one is ``kind`` alone. A key that is not text is a position.
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
    """Return the position that a key of a sequence stands for."""
    position = getattr(key, "idx", key)
    return position if isinstance(position, int) else default
