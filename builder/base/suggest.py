"""Guess which name was meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from builder.base.escape import escape_invisible


def find_similar_names(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Return up to ``count`` names of ``known`` that look like ``word``, joined by "or"; nothing where none does.

    ``cutoff``: from 0, where every name is alike, to 1, where only the same one is.
    """
    return escape_invisible(" or ".join(get_close_matches(word, list(known), count, cutoff)))


def did_you_mean(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Return a question that names what ``find_similar_names`` finds, to stand behind a message; nothing where it
    finds none.
    """
    close = find_similar_names(word, known, count, cutoff)
    return f" Did you mean {close}?" if close else ""
