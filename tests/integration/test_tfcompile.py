"""The compiler in the wheel, run for real; and that the preflight foretells what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from builder.base.errors import CompileError, ImportModelError, PreflightError
from builder.base.targets import ARM64, X86_64, passes_result_first
from builder.base.tf import ENVIRONMENT, XLA_FLAGS, import_tensorflow
from builder.compiler.xla import tfcompile
from builder.compiler.xla.compilation_result import read_result
from builder.compiler.xla.tfcompile import CompiledGraph, compile_graph
from builder.importers.graph import FrozenGraph
from builder.pipeline.preflight import check_graph, format_preflight, require_buildable
from tests.support.models import save_graph

pytestmark = pytest.mark.integration

tf = import_tensorflow()
F = "float32"

Feeds = dict[str, tuple[str, tuple[int, ...]]]


def string_loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(i > 2, lambda: a, lambda: tf.strings.to_number(tf.as_string(a)))

    return tf.while_loop(lambda i, a: i < 5, body, [tf.constant(0), x])[1]


def v1_loop(x: Any) -> Any:
    """Enter, Switch, Merge and NextIteration, as in a graph frozen by TensorFlow 1."""
    tf.compat.v1.disable_control_flow_v2()
    try:
        return tf.compat.v1.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2.0), [tf.constant(0), x])[1]
    finally:
        tf.compat.v1.enable_control_flow_v2()


BUILDS: dict[str, tuple[Callable[..., Any], Feeds]] = {
    "matmul": (lambda x: tf.nn.relu(tf.matmul(x, x)), {"x": (F, (4, 4))}),
    "float64": (lambda x: tf.nn.softmax(tf.matmul(x, x)), {"x": ("float64", (4, 4))}),
    "int32": (lambda x: tf.matmul(x, x), {"x": ("int32", (4, 4))}),
    "uint16": (lambda x: x + x, {"x": ("uint16", (4,))}),
    "bool, and names that begin with digits": (lambda x: {"2nd": tf.logical_not(x)}, {"1st": ("bool", (4,))}),
    "half inside": (lambda x: tf.cast(tf.nn.relu(tf.cast(x, "float16")), F), {"x": (F, (4,))}),
    "conv2d": (lambda x: tf.nn.conv2d(x, tf.ones([3, 3, 2, 2]), 1, "SAME"), {"x": (F, (1, 8, 8, 2))}),
    "conv3d": (lambda x: tf.nn.conv3d(x, tf.ones([2, 2, 2, 1, 2]), [1] * 5, "SAME"), {"x": (F, (1, 4, 4, 4, 1))}),
    "fft": (lambda x: tf.abs(tf.signal.rfft(x)), {"x": (F, (8,))}),
    "resize": (lambda x: tf.image.resize(x, (6, 6)), {"x": (F, (1, 3, 3, 1))}),
    "top_k": (lambda x: tf.math.top_k(x, 2)[1], {"x": (F, (8,))}),
    "cholesky": (lambda x: tf.linalg.cholesky(x), {"x": (F, (3, 3))}),
    "map_fn": (lambda x: tf.map_fn(lambda row: row * 2, x), {"x": (F, (4, 4))}),
    "switch_case": (lambda x, i: tf.switch_case(i, [lambda: x, lambda: x * 2]), {"x": (F, (4,)), "i": ("int32", ())}),
    "v1 loop": (v1_loop, {"x": (F, (4,))}),
    "random": (lambda x: x + tf.random.uniform([3]), {"x": (F, (3,))}),
    "unique": (lambda x: tf.reduce_sum(tf.unique(x)[0]), {"x": ("int32", (3,))}),
    "nms padded": (
        lambda b, s: tf.image.non_max_suppression_padded(b, s, 3, pad_to_max_output_size=True)[0],
        {"b": (F, (5, 4)), "s": (F, (5,))},
    ),
    "nms": (
        lambda b, s: tf.image.combined_non_max_suppression(b, s, 3, 3)[0],
        {"b": (F, (1, 5, 1, 4)), "s": (F, (1, 5, 2))},
    ),
    "pass through": (lambda x: x, {"x": (F, (4,))}),
    "unused feed": (lambda x: tf.constant([1.0, 2.0]), {"x": (F, (4,))}),
}

REFUSED: dict[str, tuple[Callable[..., Any], Feeds, set[str]]] = {
    "strings": (lambda x: tf.strings.to_number(tf.as_string(x)), {"x": (F, (3,))}, {"AsString", "StringToNumber"}),
    "strings in a branch in a loop": (string_loop, {"x": (F, (3,))}, {"AsString", "StringToNumber"}),
    "python": (
        lambda x: tf.ensure_shape(tf.numpy_function(lambda a: a, [x], tf.float32), [4]),
        {"x": (F, (4,))},
        {"PyFunc"},
    ),
    "string comparison": (
        lambda x: tf.cast(tf.equal(tf.constant("a"), tf.constant("b")), F) * x,
        {"x": (F, (4,))},
        {"Equal"},
    ),
}

_COMPILE_ALL = """
import json, os, sys
from pathlib import Path
from builder.base.targets import X86_64
from builder.compiler.xla.tfcompile import run_tfcompile
results = {}
for folder in sys.argv[1:]:
    os.chdir(folder)
    try:
        run_tfcompile(Path(folder), X86_64)
        results[folder] = None
    except Exception as error:
        results[folder] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FrozenGraph]:
    folder = tmp_path_factory.mktemp("graphs")
    every = {**BUILDS, **{name: (function, feeds) for name, (function, feeds, _) in REFUSED.items()}}
    return {name: save_graph(function, feeds, folder / name) for name, (function, feeds) in every.items()}


@pytest.fixture(scope="module")
def verdicts(graphs: dict[str, FrozenGraph]) -> dict[str, str | None]:
    """What tfcompile says of each graph, None for yes; in one process, as starting it is most of the time."""
    folders = {str(graph.folder): name for name, graph in graphs.items()}
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE_ALL, *folders],
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {folders[folder]: verdict for folder, verdict in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.mark.parametrize("name", BUILDS)
def test_what_passes_the_preflight_compiles(
    graphs: dict[str, FrozenGraph], verdicts: dict[str, str | None], name: str
) -> None:
    assert check_graph(graphs[name]).unsupported == ()
    assert verdicts[name] is None
    if passes_result_first():
        assert b"constant_buffer_contents" not in (graphs[name].folder / "graph_constants.o").read_bytes()


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_preflight_refuses_does_not_compile(
    graphs: dict[str, FrozenGraph], verdicts: dict[str, str | None], name: str
) -> None:
    result = check_graph(graphs[name])
    assert {u.op for u in result.unsupported} == REFUSED[name][2]
    assert verdicts[name] is not None
    with pytest.raises(PreflightError) as error:
        require_buildable(result)
    assert all(op in str(error.value) for op in REFUSED[name][2])


def test_a_dtype_gap_says_which_types_there_are(graphs: dict[str, FrozenGraph]) -> None:
    text = format_preflight(check_graph(graphs["string comparison"]))
    assert "Equal x1: XLA has no kernel for T = string, only for bfloat16, bool," in text


def test_nodes_in_loops_and_branches_are_named(graphs: dict[str, FrozenGraph]) -> None:
    (found,) = [u for u in check_graph(graphs["strings in a branch in a loop"]).unsupported if u.op == "AsString"]
    assert found.nodes == ("while > cond > AsString",)
    assert found.hint


@pytest.mark.quick
def test_objects_are_for_the_target_and_always_the_same(graphs: dict[str, FrozenGraph], tmp_path: Path) -> None:
    first = compile_graph(graphs["conv2d"], X86_64, tmp_path / "a")
    second = compile_graph(graphs["conv2d"], X86_64, tmp_path / "b")
    assert sorted(p.name for p in first.folder.iterdir()) == ["compile.json", "graph.o", "graph_metadata.o"]
    loaded = CompiledGraph.load(first.folder, X86_64)
    assert (loaded.flags, loaded.tensorflow) == (XLA_FLAGS, tf.__version__)
    assert first.kernels_path.read_bytes() == second.kernels_path.read_bytes()
    # The metadata is the same message, but protobuf writes its maps in any order.
    results = [str(read_result(compiled.metadata_path, tmp_path / "cache")) for compiled in (first, second)]
    assert results[0] == results[1]
    arm = compile_graph(graphs["conv2d"], ARM64, tmp_path / "arm")
    for compiled, machine in ((first, "EM_X86_64"), (arm, "EM_AARCH64")):
        with compiled.kernels_path.open("rb") as file:
            assert ELFFile(file)["e_machine"] == machine


@pytest.mark.quick
def test_a_refusal_is_a_compile_error_in_the_compilers_words(graphs: dict[str, FrozenGraph], tmp_path: Path) -> None:
    with pytest.raises(CompileError) as error:
        compile_graph(graphs["strings"], X86_64, tmp_path)
    assert "AsString" in str(error.value)
    assert "Traceback" not in str(error.value)
    assert "dummy_file_name" not in str(error.value)


@pytest.mark.quick
def test_a_shape_that_depends_on_the_data(tmp_path: Path) -> None:
    graph = save_graph(
        lambda x, n: tf.reduce_sum(tf.reshape(x, n)), {"x": (F, (4,)), "n": ("int32", (2,))}, tmp_path / "g"
    )
    with pytest.raises(CompileError, match=r"Reshape must be a compile-time constant"):
        compile_graph(graph, X86_64, tmp_path / "c")


def test_a_size_that_depends_on_the_data_of_a_loop_of_tensorflow_1(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="not bounded in a graph with loops of TensorFlow 1"):
        save_graph(lambda x: tf.boolean_mask(v1_loop(x), x > 0), {"x": (F, (4,))}, tmp_path)


@pytest.mark.quick
def test_a_crash_is_a_compile_error() -> None:
    noise = "W0000 00:00:1795256509.358112    5489 cpu_feature_guard.cc:227] This binary is optimized\n"
    reason = "F0000 00:00:1795256509.358112    5489 shape.cc:12] Check failed: rank == 2\n*** Aborted at 0\n"
    text = tfcompile.explain_failure(-signal.SIGABRT, noise + reason)
    assert text == "XLA's compiler crashed (SIGABRT).\n  Check failed: rank == 2"
    assert "memory ran out" in tfcompile.explain_failure(-signal.SIGKILL, "")
    assert "(it said nothing)" in tfcompile.explain_failure(1, "")
