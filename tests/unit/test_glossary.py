"""docs/glossary.md names files, and words in them, that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUSED = ROOT / "builder" / "runtime" / "fused"

ROWS = re.findall(r"^\| (?!Word)([^|-][^|]*) \|.*\| ([^|]*) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.M)
"""Of each row, the word and where it lives."""


def _file(name: str) -> Path:
    """A file of the glossary: names without a folder are in ``FUSED``."""
    if name.startswith("builder/"):
        return ROOT / name
    return FUSED / name if "/" not in name else FUSED.parent / name


@pytest.mark.parametrize(("word", "where"), ROWS, ids=[word for word, _ in ROWS])
def test_what_the_glossary_names_exists(word: str, where: str) -> None:
    named = re.findall(r"`([^`]+)`", where)
    files = [name for name in named if "." in name or name.endswith("/")]
    assert files, f"{word} lives in no file"
    texts = ""
    for name in files:
        assert _file(name).exists(), name
        texts += _file(name).read_text() if _file(name).is_file() else ""
    for symbol in set(named) - set(files):
        assert re.search(rf"\b{symbol}\b", texts), f"{symbol} is not in {files}"


def test_every_table_was_read() -> None:
    assert len(ROWS) > 40
