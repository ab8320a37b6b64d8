"""Suggests names similar to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from builder.base.escape import escape_invisible


def find_similar_names(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Return up to ``count`` names of ``known`` that are similar to ``word``, joined by "or", or "".

    ``cutoff``: from 0, where all names are similar, to 1, where only an equal one is.
    """
    return escape_invisible(" or ".join(get_close_matches(word, list(known), count, cutoff)))


def did_you_mean(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Return a question with the result of ``find_similar_names``, to append to a message, or ""."""
    close = find_similar_names(word, known, count, cutoff)
    return f" Did you mean {close}?" if close else ""
