"""Files of a user that are nested deeper than a parser follows: each is refused by its name, without a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builder.base.errors import ColdforgeError
from builder.config import read_spec
from builder.config.schema import TextSpec
from builder.importers.text import prepare_tokenizer
from builder.pipeline.read_tuning import read_tuning
from builder.release.deploy import merge_parameters

LISTS = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("model.toml", f"x = {LISTS}", read_spec),
        ("tuning.json", LISTS, read_tuning),
        ("tokenizer.json", LISTS, lambda path: prepare_tokenizer(TextSpec(path))),
        ("samconfig.toml", f"x = {LISTS}", lambda path: merge_parameters(path, "default", [])),
    ],
)
def test_it_is_refused_by_its_name(name: str, content: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ColdforgeError, match=name.replace(".", r"\.")):
        read(path)


def test_a_library_of_thousands_of_batches_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    path.write_text(f'[model]\nsource = "m.keras"\nname = "m"\nbatch = {list(range(1, 3000))}\n', encoding="utf-8")
    with pytest.raises(ColdforgeError, match="batch"):
        read_spec(path)
    path.write_text(f'[model]\nsource = "m.keras"\nname = "m"\nbatch = {list(range(1, 33))}\n', encoding="utf-8")
    assert len(read_spec(path).batches) == 32
