"""Strings of many kinds, the same on every machine, for trying how a model works on strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Strings = NDArray[np.object_]

ODD = (
    "", " ", "\t \n\r\v\f", "a", "The cat sat on the mat.", "THE  CAT,\tsat -- on\nthe mat!", "don't stop-believing",
    "\x00", "nul\x00inside", "Zürich ÄÖÜ ß Straße", "İstanbul ıI", "Ὀδυσσεύς ΣΊΣΥΦΟΣ", "日本語のテキスト", "中文 分词",
    "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "👩‍👩‍👧‍👦 🇨🇭 😀", "e\u0301 é", "\u00a0nbsp\u2003em\u3000wide\u200b",
    "\x1c\x1d\x1e\x1f\x85", "<br />tags <b>bold</b>", "http://example.org/?q=1&r=2", "3.14 1,000 -7", "[UNK]",
    "the " * 200, "x" * 3000, "\ufeffbom", "\U0010ffff", "a" * 16, "b" * 17, "c" * 33, "d" * 65, "ﬁ ﬂ Ǆ ǅ ŉ ǰ",
)  # fmt: skip
"""Unusual strings: empty or long, with spaces outside ASCII, letters with unusual case rules, other scripts."""

NUMBERS = ("0", "1", "-7", "42", " 3 ", "100000", "2147483647")
FRACTIONS = ("0.5", "-1e3", "3.25", ".5", "7.", "1e-5", "123456.75")

_SEED = 16


def strings_like(known: Sequence[str], count: int, kind: str, seed: int) -> list[str]:
    """Return ``count`` strings of a ``kind``: "text", "known" (words of the model), "whole" or "fraction"."""
    random = np.random.Generator(np.random.PCG64([_SEED, seed]))
    if kind == "known":
        return [known[int(i)] for i in random.integers(len(known), size=count)]
    if kind != "text":
        choices = NUMBERS if kind == "whole" else NUMBERS + FRACTIONS
        return [choices[int(random.integers(len(choices)))] for _ in range(count)]
    words = [*known, *("Unknown", "zebra", "ÄRGER", "İ", "x-y", "a.b", "", "日本", "😀", "THE")]
    spaces = (" ", "  ", "\t", "\n", ", ", ". ", "\u00a0")
    texts = []
    for number in range(count):
        length = int(random.integers(0, 40)) if number % 3 else 1  # A vocabulary of labels has single words.
        parts = [words[int(i)] for i in random.integers(len(words), size=length)]
        gaps = [spaces[int(i)] for i in random.integers(len(spaces), size=length)]
        text = parts[0] if length == 1 else "".join(a + b for a, b in zip(parts, gaps, strict=True))
        texts.append(text.title() if number % 7 == 6 else text)
    return texts


def known_words(tables: Mapping[str, Any], most: int = 400) -> list[str]:
    """Return at most ``most`` of the words in ``tables`` (by node, with ``keys``), taken evenly from all."""
    words = [
        key.decode(errors="ignore") for item in tables.values() for key in item.keys.tolist() if isinstance(key, bytes)
    ]
    if len(words) <= most:
        return words
    return [words[int(i)] for i in np.linspace(0, len(words) - 1, most)]


def arrange_strings(strings: Sequence[str], item: tuple[int, ...]) -> Strings:
    """Return the strings as bytes in items of the shape ``item``, the last one filled up from the beginning."""
    size = int(np.prod(item, dtype=np.int64)) or 1
    count = -(-len(strings) // size)
    return make_strings([strings[at % len(strings)].encode() for at in range(count * size)], (count, *item))


def make_strings(strings: Sequence[bytes], shape: tuple[int, ...]) -> Strings:
    """Return an array of strings."""
    array = np.empty(len(strings), object)
    array[:] = strings
    return array.reshape(shape)
