"""A small vocabulary of BERT, for tests: words, pieces of words, and all letters."""

from __future__ import annotations

import string
from pathlib import Path

from builder.spec import TextInput
from builder.text import prepared

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "good",
    "bad",
    "film",
    "very",
    "not",
    "play",
    "##ed",
    "##ing",
    "un",
    "##known",
    "天",
    "é",
    "!",
    ".",
    "'",
)
PIECES = (*SPECIAL, *WORDS, *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase))
"""Without digits, which are therefore unknown."""


def ids(*pieces: str) -> list[int]:
    """The ids of ``pieces`` between [CLS] and [SEP]."""
    return [PIECES.index(piece) for piece in ("[CLS]", *pieces, "[SEP]")]


def write(folder: Path) -> Path:
    """``folder``/vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return path


def write_prepared(folder: Path, *, length: int | None = None, truncate: bool = True) -> None:
    """``folder``/model.text, for the function."""
    text = TextInput(None, write(folder), length=length, truncate=truncate)
    (folder / "model.text").write_bytes(prepared(text))
