"""Which models take rows of a table, and under which names, from their ports to the function's description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from builder.base.records import dump_record
from builder.base.tf import import_tensorflow
from builder.importers.graph import FrozenGraph, TablePort
from builder.importers.loaded import LoadedModel, RawGraph, Shape
from builder.importers.model_import import freeze_model
from builder.importers.ports import ModelPorts, PortInfo
from tests.support.hand_model import model_spec

tf = import_tensorflow()


def freeze(folder: Path, feeds: list[PortInfo], function: Callable[..., Any]) -> FrozenGraph:
    def make_graph(shapes: Mapping[str, Shape]) -> RawGraph:
        with tf.Graph().as_default() as graph:
            inputs = [tf.compat.v1.placeholder(feed.dtype, shapes[feed.name], name=feed.name) for feed in feeds]
            y = tf.identity(function(*inputs), "y")
            named = {feed.name: tensor.name for feed, tensor in zip(feeds, inputs, strict=True)}
            return RawGraph(graph.as_graph_def(), named, {"y": y.name})

    ports = ModelPorts(tuple(feeds), (PortInfo("y", "float32", (None, 1)),))
    return freeze_model(LoadedModel(ports, make_graph), model_spec(()), folder)


def sum_row(x: Any) -> Any:
    return tf.reduce_sum(x, 1, keepdims=True)


def test_the_columns_of_the_only_feed(tmp_path: Path) -> None:
    categories = {"colour": ("blue", "red")}
    named = {"columns": ("age", "colour"), "categories": categories, "unknown": {"colour": None}, "required": ("age",)}
    graph = freeze(tmp_path, [PortInfo("x", "float32", (None, 2), **named)], sum_row)
    assert graph.table == TablePort("x", **named)
    assert FrozenGraph.load(tmp_path).table == graph.table
    assert dump_record(graph.caller_inputs) == {"table": {"feed": "x", **named}}


@pytest.mark.parametrize("columns", [(), ("age",), ("age", "age")])
def test_columns_that_do_not_name_each_number(tmp_path: Path, columns: tuple[str, ...]) -> None:
    assert freeze(tmp_path, [PortInfo("x", "float32", (None, 2), columns=columns)], sum_row).table is None


def test_a_feed_for_each_column(tmp_path: Path) -> None:
    feeds = [PortInfo("age", "float32", (None, 1)), PortInfo("size", "float32", (None, 1))]
    graph = freeze(tmp_path / "table", feeds, lambda a, b: a + b)
    assert dump_record(graph.caller_inputs) == {"table": {"columns": ("age", "size")}}
    words = [PortInfo("colour", "string", (None, 1)), *feeds]
    mixed = freeze(
        tmp_path / "mixed", words, lambda c, a, b: a + b + tf.cast(tf.strings.to_hash_bucket_fast(c, 3), "float32")
    )
    assert mixed.table == TablePort("", ("colour", "age", "size"))
    wide = [feeds[0], PortInfo("size", "float32", (None, 2))]
    assert freeze(tmp_path / "wide", wide, lambda a, b: a + b).table is None
