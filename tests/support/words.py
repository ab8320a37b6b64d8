"""Strings through the steps of a model of words, as the server takes them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handler.description import Port
from handler.text.words import Words


def sized(
    words: Words,
    given: Mapping[str, Sequence[bytes]],
    sizes: Sequence[Mapping[str, Port]],
    **options: Any,
) -> tuple[int, dict[str, bytes]]:
    """The first of ``sizes`` that holds all items, and the bytes of its feeds."""
    rows = words.rows(given, sizes[-1], **options)
    number = words.size_for(rows, sizes)
    return number, words.filled(rows, sizes[number])


def tensors(
    words: Words, given: Mapping[str, Sequence[bytes]], ports: Mapping[str, Port], **options: Any
) -> dict[str, bytes]:
    """The bytes of the feeds ``ports``."""
    return sized(words, given, [ports], **options)[1]
