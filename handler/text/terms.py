"""Terms of a text, counted as scikit-learn's vectorizers count them: words, characters, and n-grams of either."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ..budget import require_comparisons
from .arrays import Array, Op, require_elements

_SPACES = re.compile(r"\s\s+")


def _count_terms(
    texts: Array, *,
    table: Mapping[str, int], analyzer: str, ngrams: tuple[int, int], lowercase: bool, accents: str | None,
    token_pattern: str, cost: int, slope: int, stop_words: Sequence[str],
) -> Array:  # fmt: skip
    """Return pairs [1, n, 2] of the number that ``table`` has for a term of the only text, and how often it occurs."""
    text = texts.scalar.decode()
    text = _strip_accents(text.lower() if lowercase else text, accents)
    least, most = ngrams
    if analyzer == "word":
        require_comparisons([text], cost, slope, "one of the model's patterns")
        stop = frozenset(stop_words)
        tokens = [token for token in re.findall(token_pattern, text) if token not in stop]
        parts: Sequence[str] = tokens
    else:
        parts = text = _SPACES.sub(" ", text)
    require_elements(sum(range(least, min(most, len(parts)) + 1)) * len(parts))
    if analyzer == "word":
        terms = _join_words(tokens, least, most)
    elif analyzer == "char":
        terms = _cut_windows(text, least, most)
    else:
        terms = chain.from_iterable(_cut_windows(f" {word} ", least, most, once=True) for word in text.split())
    counts = Counter(map(table.get, terms))
    del counts[None]
    return Array((1, len(counts), 2), [*chain.from_iterable(counts.items())])


def _strip_accents(text: str, kind: str | None) -> str:
    """Return ``text`` without accents; of the ``kind`` "ascii" without any other character that is not ASCII, too."""
    if kind is None or text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    if kind == "ascii":
        return parts.encode("ascii", "ignore").decode()
    return "".join(character for character in parts if not unicodedata.combining(character))


def _join_words(words: Sequence[str], least: int, most: int) -> Iterable[str]:
    for size in range(least, min(most, len(words)) + 1):
        yield from words if size == 1 else map(" ".join, zip(*(words[at:] for at in range(size)), strict=False))


def _cut_windows(text: str, least: int, most: int, *, once: bool = False) -> Iterator[str]:
    """Yield the parts of each size; with ``once``, a text that is no longer than a size is that part, and the last."""
    for size in range(least, min(most, len(text)) + 1):
        for at in range(len(text) - size + 1):
            yield text[at : at + size]
    if once and len(text) < least:
        yield text


OPS: Mapping[str, Op] = {"CountTerms": _count_terms}
