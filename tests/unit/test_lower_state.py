"""Variables of a program: split from its feeds and fetches, and printed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from builder.base.arrays import save_arrays
from builder.compiler.emit.header import format_header
from builder.compiler.emit.metadata import format_model_json
from builder.compiler.emit.print_program import format_program_source
from builder.compiler.lower.program import BoundPort, Program, Weight, bind_state, list_state_ports
from builder.compiler.lower.steps.base import Buffer
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph, GraphPort

X = GraphPort(TensorSpec("x", "float32", (2,)), "feed/x:0")
SUM = GraphPort(TensorSpec("layer/sum", "float32", (3,)), "model/sum")
CALLS = GraphPort(TensorSpec("calls", "int64", ()), "model/calls")
FIRST = {"model/sum": np.array([1, 2, 3], np.float32), "model/calls": np.array(7, np.int64)}


def program() -> Program:
    def at(offset: int, size: int) -> Buffer:
        return Buffer("arena", offset, size)

    feeds = (BoundPort(X.spec, at(0, 8)), BoundPort(SUM.spec, at(64, 12)), BoundPort(CALLS.spec, at(128, 8)))
    # One is written in place, the other always becomes the same constant.
    fetches = (BoundPort(X.spec, at(192, 8)), BoundPort(SUM.spec, at(64, 12)))
    fetches += (BoundPort(CALLS.spec, Buffer("weights", 0, 8)),)
    return Program((), feeds, fetches, (Weight(0, bytes(8)),), 256, 64)


def test_state_is_what_comes_after_the_feeds_and_fetches() -> None:
    bound = bind_state(program(), (SUM, CALLS), FIRST)
    assert [p.spec.name for p in bound.feeds] == [p.spec.name for p in bound.fetches] == ["x"]
    assert [(s.spec.name, s.offset, s.read.offset, s.write) for s in bound.states] == [
        ("layer/sum", 0, 64, Buffer("arena", 64, 12)),
        ("calls", 12, 128, Buffer("weights", 0, 8)),
    ]
    assert bound.state_size == 20
    blob = {w.offset: w.data for w in bound.weights}
    assert [blob[s.first.offset] for s in bound.states] == [value.tobytes() for value in FIRST.values()]
    assert all(offset % 64 == 0 for offset in blob)
    assert bound.weights_size == 192


def test_a_program_without_state_is_left_alone() -> None:
    assert bind_state(program(), (), {}) is not None
    assert bind_state(program(), (), {}).states == ()
    assert "state" not in format_program_source(program(), "{}", "")
    assert "CF_STATE_SIZE" not in format_header(program())


def test_what_is_printed_of_it() -> None:
    bound = bind_state(program(), (SUM, CALLS), FIRST)
    source = format_program_source(bound, "{}", "")
    assert "{0u, 12u, 64u, 64u, 0, 64u}, /* layer/sum */" in source
    assert "{12u, 8u, 128u, 0u, 1, 128u}, /* calls */" in source
    assert ".state_count = 2" in source
    assert ".state_size = 20u" in source
    assert "#define CF_STATE_SIZE 20u /* layer/sum, calls */" in format_header(bound)
    spec = ModelSpec(Path("model.toml"), "m", "1", Source("graph_def", Path("m.pb")))
    assert json.loads(format_model_json(bound, spec, {"x86_64": []}))["states"] == [
        {"name": "layer/sum", "dtype": "float32", "shape": [3], "offset": 0, "bytes": 12},
        {"name": "calls", "dtype": "int64", "shape": [], "offset": 12, "bytes": 8},
    ]


def test_a_graph_keeps_its_first_state(tmp_path: Path) -> None:
    graph = FrozenGraph(tmp_path, (X,), (X,), {"model/w": "w"}, (SUM, CALLS))
    save_arrays(graph.state_path, {str(i): FIRST[s.tensor] for i, s in enumerate(graph.states)})
    graph.save()
    again = FrozenGraph.load(tmp_path)
    assert again == graph
    assert list_state_ports(again)[0] == (X, SUM, CALLS)
    for node, value in again.first_state().items():
        np.testing.assert_array_equal(value, FIRST[node])
        assert value.dtype == FIRST[node].dtype
