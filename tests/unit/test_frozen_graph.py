"""What the process that read a model says of it is taken for what it is, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import SandboxError
from builder.config.tensor import IndexRange, TensorSpec
from builder.importers.graph import FrozenGraph, GraphPort

GRAPH = {
    "feeds": (GraphPort(TensorSpec("x", "float32", (1, 4), ranges=(IndexRange(0, 1, 4, -3, 9),)), "feed/x:0"),),
    "fetches": (
        GraphPort(TensorSpec("y", "int64", ()), "fetch/y:0"),
        GraphPort(TensorSpec("r", "float32", (9, 4), (0,)), "fetch/r:0"),
        GraphPort(TensorSpec("r_shape", "int32", (2,)), "fetch/r_shape:0"),
    ),
    "variables": {"model/w": "dense/kernel"},
    "states": (GraphPort(TensorSpec("s", "bool", (0, 3)), "model/s"),),
}
CODE = "1]; __attribute__((constructor)) void f(void) { } int y["


def test_it_is_read_as_it_was_saved(tmp_path: Path) -> None:
    graph = FrozenGraph(tmp_path, **GRAPH)  # type: ignore[arg-type]
    graph.save()
    assert FrozenGraph.load(tmp_path) == graph


def feed(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda ports: change(ports["feeds"][0])


@pytest.mark.parametrize(
    "change",
    [
        feed(lambda port: port["spec"].update(shape=[1, CODE])),
        feed(lambda port: port["spec"].update(shape=CODE)),
        feed(lambda port: port["spec"].update(shape=[-1, 4])),
        feed(lambda port: port["spec"].update(shape=[True, 4.0])),
        feed(lambda port: port["spec"].update(shape=[1 << 62, 1 << 62])),
        feed(lambda port: port["spec"].update(dynamic=CODE)),
        feed(lambda port: port["spec"].update(dynamic=[CODE])),
        feed(lambda port: port["spec"].update(dynamic=[-1])),
        feed(lambda port: port["spec"].update(dynamic=[2])),
        feed(lambda port: port["spec"].update(dynamic=[0])),
        lambda ports: ports["fetches"].pop(),
        lambda ports: ports["fetches"].insert(2, ports["fetches"][0]),
        lambda ports: ports["fetches"][2]["spec"].update(dtype="int64"),
        lambda ports: ports["fetches"][2]["spec"].update(shape=[1]),
        feed(lambda port: port["spec"].update(ranges=CODE)),
        feed(lambda port: port.update(symbols=CODE)),
        feed(lambda port: port.update(symbols=-1)),
        feed(lambda port: port.update(symbols=1 << 62)),
        *(
            feed(lambda port, key=key, value=value: port["spec"]["ranges"][0].update({key: value}))
            for key, value in [
                ("first", CODE),
                ("first", -1),
                ("first", 4),
                ("count", 0),
                ("count", 5),
                ("period", 3),
                ("period", 0),
                ("maximum", 9.5),
                ("maximum", 1 << 63),
                ("minimum", None),
                ("other", 1),
            ]
        ),
        feed(lambda port: port["spec"].update(dtype="float32 " + CODE)),
        feed(lambda port: port["spec"].update(dtype=["float32"])),
        feed(lambda port: port["spec"].update(name=["x"])),
        feed(lambda port: port.update(tensor=3)),
        feed(lambda port: port.pop("spec")),
        lambda ports: ports.update(feeds={"x": 1}),
        lambda ports: ports.update(variables={"w": ["x"]}),
        lambda ports: ports.update(variables=[1]),
        lambda ports: ports.pop("fetches"),
    ],
)
def test_ports_that_are_none_are_refused(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    graph = FrozenGraph(tmp_path, **GRAPH)  # type: ignore[arg-type]
    graph.save()
    ports = json.loads(graph.ports_path.read_text())
    change(ports)
    graph.ports_path.write_text(json.dumps(ports))
    with pytest.raises(SandboxError, match=r"ports\.json"):
        FrozenGraph.load(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"feeds": 1}', "\ud800"])
def test_a_file_that_is_no_ports_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SandboxError, match=r"ports\.json"):
        FrozenGraph.load(tmp_path)
