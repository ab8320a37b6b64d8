"""Strings through the steps of a model of words, as the server takes them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handler.description import Port
from handler.text.rows import choose_row_size, fill_feeds
from handler.text.words import StringProgram


def sized(
    words: StringProgram,
    given: Mapping[str, Sequence[bytes]],
    sizes: Sequence[Mapping[str, Port]],
    **options: Any,
) -> tuple[int, dict[str, bytes]]:
    """The first of ``sizes`` that holds all items, and the bytes of its feeds."""
    rows = words.compute_rows(given, sizes[-1], **options)
    number = choose_row_size(rows, sizes)
    return number, fill_feeds(rows, words.pads, sizes[number])


def tensors(
    words: StringProgram, given: Mapping[str, Sequence[bytes]], ports: Mapping[str, Port], **options: Any
) -> dict[str, bytes]:
    """The bytes of the feeds ``ports``."""
    return sized(words, given, [ports], **options)[1]
