"""The names that model.toml gives the columns of an input, from the file to what the function knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import ImportModelError
from builder.base.tf import import_tensorflow
from builder.config import FeedSpec, read_spec
from builder.importers.graph import TablePort
from tests.support.models import freeze, save_graph

tf = import_tensorflow()

TOML = """
[model]
source = "graph.pb"
batch = 4
[[feeds]]
name = "x"
shape = [4, 2]
columns = ["age", "height, in cm"]
[[fetches]]
name = "y"
"""
NAMES = ("age", "height, in cm")


def freeze_graph(folder: Path, columns: tuple[str, ...], **feeds: tuple[str, tuple[int, ...]]) -> TablePort | None:
    def make_answer(*inputs: Any) -> Any:
        return tf.add_n([tf.reduce_sum(x, 1) for x in inputs])

    path = save_graph(make_answer, dict(feeds), folder).graph_path
    specs = tuple(FeedSpec(name, shape, columns=columns if name == "x" else ()) for name, (_, shape) in feeds.items())
    return freeze(path, folder / "frozen", batch=4, feeds=specs, config=folder / "config.pbtxt").table


def test_the_columns_that_model_toml_names(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(TOML)
    (feed,) = read_spec(tmp_path / "model.toml").feeds
    assert feed.columns == NAMES
    assert freeze_graph(tmp_path, feed.columns, x=("float32", (4, 2))) == TablePort("x", NAMES)
    assert freeze_graph(tmp_path, (), x=("float32", (4, 2))) is None


@pytest.mark.parametrize(
    ("feeds", "why"),
    [
        ({"x": ("float32", (4, 3))}, r"has the shape \[4, 3\], by 2 names"),
        ({"x": ("float32", (4, 2, 1))}, r"has the shape \[4, 2, 1\]"),
        ({"x": ("float32", (4, 2)), "z": ("float32", (4, 2))}, "is not all that callers pass"),
    ],
)
def test_names_that_are_not_those_of_an_input(tmp_path: Path, feeds: Any, why: str) -> None:
    with pytest.raises(ImportModelError, match=rf"\[\[feeds\]\] names the columns of 'x', which {why}"):
        freeze_graph(tmp_path, NAMES, **feeds)
