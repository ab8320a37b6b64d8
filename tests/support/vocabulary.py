"""What models of text know, for tests: a small vocabulary of BERT (words, pieces of words, all letters), or steps."""

from __future__ import annotations

import json
import string
from pathlib import Path

from builder.config import TextSpec
from builder.importers.text import prepare_tokenizer
from tests.support import abi_library

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


def write_prepared(folder: Path, *, length: int | None = None, truncate: bool = True, pairs: bool = False) -> None:
    """``folder``/model.text, for the function."""
    text = TextSpec(None, write(folder), length=length, truncate=truncate, pairs=pairs)
    (folder / "model.text").write_bytes(prepare_tokenizer(text))


def write_counter(folder: Path) -> Path:
    """The library in ``folder`` of a model without a tokenizer: its embedding of a text is the number of its bytes."""
    feed, fetch = (abi_library._port(name, "int64", 2, 1) for name in ("lengths", "vector"))
    output = {"name": "vector", "fetch": "vector", "kind": "embedding", "labels": [], "top_k": None}
    taken = [{"name": "text", "shape": [2], "feeds": ["lengths"]}]
    description = abi_library._describe("sized", 2, [feed], [fetch], image=None, strings=taken, outputs=[output])
    library = abi_library.build(folder, description)
    recipe = {
        "inputs": [{"name": "text", "shape": [1]}],
        "constants": [],
        "tables": [],
        "steps": [{"op": "StringLength", "of": [0], "unit": "BYTE"}],
        "outputs": [{"feed": "lengths", "value": 1}],
        "checks": [],
    }
    (folder / "model.words").write_text(json.dumps({"kind": "words"}) + "\n" + json.dumps(recipe))
    return library
