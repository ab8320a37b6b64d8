"""Times of steps: what is counted, that the clock is in no library that is packed, and how it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.control_step import CallStep, WhileStep
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph, GraphPort
from builder.measure.explain_steps import ExplainedStep, Explanation, format_explanation
from builder.verify import step_probes
from builder.verify.golden import GoldenCase, GoldenFile
from tests.support.runtime import CACHE

X = TensorSpec("x", "float32", (1024,))
SPEC = ModelSpec(Path("model.toml"), "loop", "1", Source("graph_def", Path("g.pb")))


def copy(name: str, source: int, target: int) -> CopyStep:
    return CopyStep(name, Buffer("arena", source, 4096), Buffer("arena", target, 4096), 4, (1024,), (1,), (1,))


IN_LOOP, IN_CALL = copy("in.loop", 0, 4096), copy("in.call", 4096, 8192)
PROGRAM = Program(
    steps=(
        copy("first", 0, 4096),
        WhileStep("loop", (), Buffer("arena", 12288, 1), (IN_LOOP, CallStep("call", (IN_CALL,))), 7),
        copy("last", 8192, 4096),
    ),
    feeds=(BoundPort(X, Buffer("arena", 0, 4096)),),
    fetches=(BoundPort(TensorSpec("y", "float32", (1024,)), Buffer("arena", 4096, 4096)),),
    weights=(),
    arena_size=16384,
    weights_size=0,
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> FrozenGraph:
    folder = tmp_path_factory.mktemp("graph")
    GoldenFile.write(folder / "golden.npz", {"case": GoldenCase({"x": np.arange(1024, dtype=np.float32)}, {})})
    return FrozenGraph(folder, (GraphPort(X, "x:0"),), (GraphPort(TensorSpec("y", "float32", (1024,)), "y:0"),))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledGraph:
    """No kernels of XLA's."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "none.c").write_text("typedef int none;\n")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-c", "none.c", "-o"]
    subprocess.run([*command, "graph.o"], cwd=folder, check=True)
    return CompiledGraph(folder, X86_64, "", "", 0.0)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, compiled: CompiledGraph) -> Path:
    return step_probes.build_timed_library(
        PROGRAM, SPEC, compiled, tmp_path_factory.mktemp("profile") / "explain", CACHE.parent, "key"
    )


def test_every_step_is_counted_and_timed_those_in_loops_and_calls_too(library: Path, graph: FrozenGraph) -> None:
    profiled = step_probes.ProfiledLibrary(library, PROGRAM, graph)
    times = step_probes.measure_steps({"one": profiled}, 0.0)["one"]
    assert times.rounds == step_probes.MIN_ROUNDS
    assert times.calls == (1, 1, 7, 7, 7, 1)  # first, loop, in.loop, call, in.call, last
    np.testing.assert_array_equal(profiled.fetches[0].view(np.float32), np.arange(1024))
    for index in (0, 2, 4, 5):  # a copy of 4 KB takes some nanoseconds
        assert 0 < times.fastest[index] <= times.median[index]
    assert sum(times.fastest) <= times.run
    profiled.close()


def test_what_cannot_be_run_here_is_an_error(tmp_path: Path, graph: FrozenGraph) -> None:
    (tmp_path / "libmodel.so").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(VerifyError, match="cannot load"):
        step_probes.ProfiledLibrary(tmp_path / "libmodel.so", PROGRAM, graph)


def test_the_clock_is_in_no_other_library(tmp_path: Path) -> None:
    emit_sources(PROGRAM, SPEC, X86_64, tmp_path)
    assert "cf_step" not in (tmp_path / "program.c").read_text()
    emit_sources(PROGRAM, SPEC, X86_64, tmp_path, probe="profile")
    assert "cf_step(context, 5);" in (tmp_path / "program.c").read_text()


EXPLAINED = Explanation(
    model="m", path="optimised", reason="", isa="x86-64-v3", threads=1, rounds=9, run_microseconds=35.0,
    rows=(
        ExplainedStep("conv", 0, "layer", "winograd4", ("bias", "relu"), 2_000_000, 4_000, 1, 20.0, 22.0),
        ExplainedStep("loop", 0, "xla", "", (), 0, 0, 1, 0.5, 0.6),
        ExplainedStep("dot", 1, "xla", "", ("a dot of float64",), 100_000, 800, 10, 9.5, 11.0),
    ),
    weights=1_000, arena=2_000,
)  # fmt: skip


def words(line: str) -> str:
    return " ".join(line.split())


def test_table_and_json_tell_the_same() -> None:
    lines = format_explanation(EXPLAINED).splitlines()
    assert words(lines[2]) == "conv layer winograd4 bias + relu 2.0 4,000 20.0 100.0 66.7"
    assert words(lines[4]) == "dot ×10 xla a dot of float64 1.0 8,000 9.5 105.3 31.7"
    assert lines[4].startswith("  dot ×10")
    assert words(lines[6]) == "together 3.0 12,000 30.0 100.0 100.0"
    data = json.loads(json.dumps(EXPLAINED.to_dict()))
    assert data["together"] == {"flop": 3_000_000, "microseconds": 30.0, "layer_share": 2 / 3}
    assert [s["gflops"] for s in data["steps"]] == pytest.approx([100.0, 0.0, 105.263], rel=1e-5)
    assert sum(s["share"] for s in data["steps"]) == pytest.approx(1)
    assert "1 layer, 2 xla; fused steps do 66.7 %" in lines[8]


def test_a_library_that_cannot_be_opened_leaves_the_environment_alone(
    graph: FrozenGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(step_probes.LIMIT, raising=False)
    with pytest.raises(VerifyError, match="cannot load"):
        step_probes.ProfiledLibrary(tmp_path / "libmodel.so", PROGRAM, graph, isa="x86-64-v3")
    assert step_probes.LIMIT not in os.environ
