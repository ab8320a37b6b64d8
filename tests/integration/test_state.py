"""Models that keep state from one call to the next, against TensorFlow's own sequence of calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from builder.base.errors import LowerError
from builder.base.project import RUNTIME
from builder.base.targets import ARM64, X86_64, Target
from builder.base.tf import import_tensorflow
from builder.compiler.link.shared_library import BASELINE_SOURCES, KERNEL_SOURCES, SharedLibrary
from builder.compiler.lower import LoweringPath, lower_graph
from builder.compiler.xla.tfcompile import compile_graph
from builder.config import FeedSpec, ModelSpec, render_spec
from builder.importers.graph import FrozenGraph
from builder.importers.model_import import import_model
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.preflight import check_graph
from builder.pipeline.preflight import require_buildable as require_preflight
from builder.pipeline.workspace import Workspace
from builder.release.export import export_model
from builder.release.selftest.programs import build_selftest
from builder.release.wasm.build_module import build_wasm
from builder.verify.compare_answers import verify_library
from builder.verify.expected_answers import open_expected
from builder.verify.reference_answers import make_golden_file
from builder.verify.verification import require_passed
from handler.budget import RequestLimits
from handler.errors import make_refusal
from handler.model import Model
from handler.request import Request
from handler.server import Invocation, Server
from tests.conftest import ROOT
from tests.support import needs, qemu
from tests.support.build import CACHE, build_library
from tests.support.models import empty_project, save_keras, spec_for

pytestmark = pytest.mark.integration

SIZE = 3


def modules() -> dict[str, Callable[[], Any]]:
    """Modules whose ``__call__`` takes x [2, SIZE] and keeps something of it."""
    tf = import_tensorflow()
    signature = [tf.TensorSpec([2, SIZE], tf.float32, "x")]

    class Counter(tf.Module):  # type: ignore[misc, name-defined]
        """Two writes a call, one of them read back, and an integer beside."""

        def __init__(self) -> None:
            super().__init__()
            self.sum = tf.Variable(tf.constant([1.0, 2.0, 3.0]), name="sum")
            self.calls = tf.Variable(tf.constant(0, tf.int64), name="calls")

        @tf.function(input_signature=signature)
        def __call__(self, x: Any) -> Any:
            before = self.sum.read_value()
            self.sum.assign_add(tf.reduce_sum(x, 0))
            self.calls.assign_add(1)
            after = self.sum.read_value()
            self.sum.assign(self.sum * 0.5)
            return {"before": before, "after": after, "calls": self.calls.read_value()}

    class Mean(tf.Module):  # type: ignore[misc, name-defined]
        """A running mean, written in one branch only and in a loop."""

        def __init__(self) -> None:
            super().__init__()
            self.mean = tf.Variable(tf.zeros([SIZE]), name="mean")
            self.seen = tf.Variable(0.0, name="seen")

        @tf.function(input_signature=signature)
        def __call__(self, x: Any) -> Any:
            for i in tf.range(2):
                row = x[i]
                if tf.reduce_sum(row) > 0:
                    self.seen.assign_add(1.0)
                    self.mean.assign_add((row - self.mean) / self.seen)
            tf.debugging.assert_all_finite(self.mean, "mean")
            return {"mean": self.mean.read_value(), "seen": self.seen.read_value()}

    class Ring(tf.Module):  # type: ignore[misc, name-defined]
        """A ring buffer: one row is written where an index that is state itself says."""

        def __init__(self) -> None:
            super().__init__()
            self.rows = tf.Variable(tf.ones([4, SIZE]), name="rows")
            self.at = tf.Variable(0, name="at")

        @tf.function(input_signature=signature)
        def __call__(self, x: Any) -> Any:
            self.rows.scatter_nd_update([[self.at]], x[:1])
            self.at.assign((self.at + 1) % 4)
            return {"rows": self.rows.read_value(), "total": tf.reduce_sum(self.rows)}

    class Swap(tf.Module):  # type: ignore[misc, name-defined]
        """Two variables that change places: neither may be overwritten before it is read."""

        def __init__(self) -> None:
            super().__init__()
            self.a = tf.Variable(tf.fill([2, SIZE], 1.0), name="a")
            self.b = tf.Variable(tf.fill([2, SIZE], 2.0), name="b")

        @tf.function(input_signature=signature)
        def __call__(self, x: Any) -> Any:
            a, b = self.a.read_value(), self.b.read_value()
            self.a.assign(b)
            self.b.assign(a + x)
            return {"y": a - b}

    class Convolution(tf.Module):  # type: ignore[misc, name-defined]
        """Layers that are fused, over a picture that is state: the optimised path with state."""

        def __init__(self) -> None:
            super().__init__()
            random = np.random.default_rng(3)
            self.kernel = tf.Variable(random.normal(0, 0.2, (3, 3, 8, 8)).astype(np.float32), name="kernel")
            self.dense = tf.Variable(random.normal(0, 0.2, (SIZE, 8)).astype(np.float32), name="dense")
            self.picture = tf.Variable(random.normal(size=(1, 12, 12, 8)).astype(np.float32), name="picture")

        @tf.function(input_signature=signature)
        def __call__(self, x: Any) -> Any:
            row = tf.reshape(tf.reduce_sum(x @ self.dense, 0), [1, 1, 1, 8])
            new = tf.nn.relu(tf.nn.conv2d(self.picture + row, self.kernel, 1, "SAME"))
            self.picture.assign(0.5 * self.picture + 0.5 * new)
            return {"features": tf.reduce_mean(new, [1, 2])}

    class Noise(tf.Module):  # type: ignore[misc, name-defined]
        """A generator that goes on from call to call, and noise that is always the same."""

        def __init__(self) -> None:
            super().__init__()
            self.generator = tf.random.Generator.from_seed(7)

        @tf.function(input_signature=signature)
        def __call__(self, x: Any) -> Any:
            return {
                "drawn": tf.cast(x, tf.int32) + self.generator.uniform([2, SIZE], 0, 1000, tf.int32),
                "normal": x + self.generator.normal([2, SIZE]),
                "fixed": x + tf.random.stateless_uniform([2, SIZE], [1, 2]),
            }

    return {c.__name__.lower(): c for c in (Counter, Mean, Ring, Swap, Convolution, Noise)}


NAMES = ("counter", "mean", "ring", "swap", "convolution", "noise")


def imported(spec: ModelSpec, folder: Path) -> FrozenGraph:
    assert spec.source.path is not None
    graph = import_model(spec, spec.source.path, folder)
    require_preflight(check_graph(graph))
    make_golden_file(spec, graph)
    return graph


def saved(name: str, folder: Path) -> ModelSpec:
    module = modules()[name]()
    import_tensorflow().saved_model.save(module, str(folder / name), signatures=module.__call__)
    return spec_for(folder / name)


def built(graph: FrozenGraph, spec: ModelSpec, folder: Path, path: LoweringPath, target: Target) -> SharedLibrary:
    before = Path.cwd()
    try:
        return build_library(graph, spec, folder, path, target=target)
    finally:
        os.chdir(before)


@pytest.fixture(scope="module", params=[pytest.param("counter", marks=pytest.mark.quick), *NAMES[1:]])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelSpec, FrozenGraph]:
    folder = tmp_path_factory.mktemp(request.param)
    spec = saved(request.param, folder)
    return spec, imported(spec, folder / "import")


def test_the_golden_answers_are_the_models_own_sequence(model: tuple[ModelSpec, FrozenGraph]) -> None:
    """TensorFlow's loader, called on the golden feeds one after the other, gives the golden answers."""
    spec, graph = model
    signature = import_tensorflow().saved_model.load(str(spec.source.path)).signatures["serving_default"]
    with open_expected(graph, spec) as golden:
        assert len(golden.cases) >= 4
        seen = []
        for case in golden.cases:
            answer = signature(x=import_tensorflow().constant(golden.feeds_of(case)[0]))
            for port in graph.fetches:
                expected = golden.golden.read_fetch(case, port.spec.name)
                np.testing.assert_allclose(answer[port.spec.name].numpy(), expected, rtol=1e-5, atol=1e-6)
            seen.append(golden.answers_of(case)[0].tobytes())
    assert len(set(seen)) > 2


@pytest.mark.parametrize("path", ["faithful", "optimised"])
def test_agrees_with_tensorflow(model: tuple[ModelSpec, FrozenGraph], path: LoweringPath, tmp_path: Path) -> None:
    spec, graph = model
    require_passed(verify_library(built(graph, spec, tmp_path, path, X86_64).path, graph, spec))


@pytest.mark.parametrize("name", ["counter", "mean"])
def test_agrees_on_arm64(name: str, tmp_path: Path) -> None:
    machine = qemu.arm64(CACHE)
    spec = saved(name, tmp_path)
    graph = imported(spec, tmp_path / "import")
    require_passed(verify_library(built(graph, spec, tmp_path, "optimised", ARM64).path, graph, spec, machine))


def test_a_library_that_forgets_is_found_out(tmp_path: Path) -> None:
    """Verification sees a state that is not kept: without this the tests above would prove nothing."""
    spec = saved("counter", tmp_path)
    graph = imported(spec, tmp_path / "import")
    built(graph, spec, tmp_path, "faithful", X86_64)
    from builder.compiler.link.shared_library import link_library

    source = tmp_path / "program.c"
    source.write_text(source.read_text().replace(".state_count = 2", ".state_count = 1"))
    from builder.compiler.emit import GeneratedSources

    library = link_library(
        GeneratedSources.load(tmp_path), [tmp_path / "import" / "graph.o"], X86_64, tmp_path, CACHE / "zig"
    )
    verification = verify_library(library.path, graph, spec)
    assert not verification.passed


def test_a_keras_rnn_that_keeps_its_state(tmp_path: Path) -> None:
    import_tensorflow()
    import keras

    x = keras.Input(batch_shape=(1, 4, 5), name="x")
    hidden = keras.layers.LSTM(6, stateful=True, return_sequences=True, name="first")(x)
    hidden = keras.layers.GRU(6, stateful=True, name="second")(hidden)
    network = keras.Model(x, keras.layers.Dense(2, name="y")(hidden))
    path = save_keras(network, tmp_path / "rnn.keras")
    spec = spec_for(path, feeds=(FeedSpec("x", (1, 4, 5)),))
    graph = imported(spec, tmp_path / "import")
    assert [s.spec.name for s in graph.states] == ["first/rnn_state", "first/rnn_state_1", "second/rnn_state"]
    assert not any(value.any() for value in graph.first_state().values())  # Keras saves none
    assert "first/lstm_cell/kernel" in graph.variables.values()
    loaded = keras.saving.load_model(path)
    with open_expected(graph, spec) as golden:
        for case in golden.cases:
            ours = golden.golden.read_fetch(case, "y")
            np.testing.assert_allclose(loaded(golden.feeds_of(case)[0]).numpy(), ours, rtol=1e-5, atol=1e-6)
    library = built(graph, spec, tmp_path, "optimised", X86_64).path
    require_passed(verify_library(library, graph, spec))
    check_function(library, [np.full((1, 4, 5), i / 4, np.float32).tobytes() for i in range(3)])


def check_function(library: Path, steps: list[bytes]) -> None:
    """The items of one request are a sequence, and every request begins anew."""
    model = Model(str(library))
    assert model.description.stateful
    model.warm_up()
    with model.start_sequence():
        expected = [bytes(model.run([step])[0]) for step in steps]
    assert expected != [bytes(model.run([step])[0]) for step in steps]
    server = Server({model.description.name: model}, RequestLimits())
    call = Invocation(
        "request", False, lambda: 15_000, lambda result: None, lambda error: make_refusal(error, "request")
    )
    for _ in range(2):
        batches = server.run_inference(Request((), {"x": b"".join(steps)}), call).batches
        assert [bytes(fetches[0]) for fetches, _ in batches] == expected
    model.close()


def test_every_process_draws_the_numbers_that_the_model_was_saved_with(tmp_path: Path) -> None:
    """As TensorFlow does. Nothing of an instance or its time is in them, whatever it ran before."""
    spec = saved("noise", tmp_path)
    library = built(imported(spec, tmp_path / "import"), spec, tmp_path, "optimised", X86_64).path
    steps = [np.full((2, SIZE), i, np.float32).tobytes() for i in range(3)]
    check_function(library, steps)
    loaded = import_tensorflow().saved_model.load(str(spec.source.path)).signatures["serving_default"]
    wanted = [loaded(x=import_tensorflow().zeros([2, SIZE])) for _ in steps]
    command = [sys.executable, "-c", DRAWING, str(library)]
    runs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1]
    for want, got in zip(wanted, json.loads(runs[0]), strict=True):
        assert want["drawn"].numpy().ravel().tolist() == got["drawn"]
        for name in ("normal", "fixed"):
            np.testing.assert_allclose(got[name], want[name].numpy().ravel(), rtol=0, atol=1e-5)


DRAWING = f"""
import json, sys
from handler.model import Model

model = Model(sys.argv[1])
names = [fetch.name for fetch in model.description.fetches]
model.warm_up()
with model.start_sequence():
    runs = [model.run([bytes({8 * SIZE})]) for _ in range(3)]
print(json.dumps([dict(zip(names, map(list, found))) for found in runs]))
"""


def test_its_own_test_its_export_and_webassembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test program runs the cases as one sequence, the export has the first values, a module is refused."""
    spec, project = saved("counter", tmp_path), empty_project(tmp_path, monkeypatch)
    spec.path.write_text(render_spec(spec))
    ws = Workspace.from_spec(spec, project)
    build_bundle(ws)
    assert "PASSED" in build_selftest(ws).output
    folder = export_model(ws, tmp_path / "out").folder
    weights = safetensors.numpy.load_file(folder / "weights.safetensors")
    np.testing.assert_array_equal(weights["sum"], [1, 2, 3])
    assert weights["calls"] == 0
    assert not (folder / "model.toml").exists()
    with pytest.raises(LowerError, match="keeps state from call to call"):
        build_wasm(ws)


def test_convolutions_beside_state_are_fused(tmp_path: Path) -> None:
    spec = saved("convolution", tmp_path)
    graph = imported(spec, tmp_path / "import")
    compile_graph(graph, X86_64, tmp_path / "compiled")
    lowered = lower_graph(tmp_path / "compiled" / "graph_metadata.o", graph, CACHE)
    assert lowered.path == "optimised"
    assert "layer" in {note.kind for note in lowered.notes}
    assert [s.spec.name for s in lowered.program.states] == ["picture"]
    assert [p.spec.name for p in lowered.program.feeds] == ["x"]


def test_a_c_program_under_sanitizers(tmp_path: Path) -> None:
    """The state functions called well and badly, in a library that is checked for every wrong access and leak."""
    needs.gcc()
    spec = saved("counter", tmp_path)
    graph = imported(spec, tmp_path / "import")
    folder = tmp_path / "import"
    built(graph, spec, folder, "faithful", X86_64)
    names = ("abi/model.c", "platform/cpu_x86_64.c", *BASELINE_SOURCES, *KERNEL_SOURCES)
    sources = [ROOT / "tests" / "support" / "state_caller.c", *(RUNTIME / name for name in names)]
    sources += [folder / name for name in ("program.c", "weights.S", "graph.o")]
    flags = ["-std=c11", "-g", "-O0", "-march=x86-64-v3", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    stub = tmp_path / "tables.c"
    stub.write_text('#include "abi/program.h"\nconst cf_fused *const cf_fused_tables[2];\n')
    command = ["gcc", *flags, f"-I{folder}", f"-I{RUNTIME}", *map(str, [*sources, stub]), "-lm", "-lpthread"]
    subprocess.run([*command, "-o", str(tmp_path / "caller")], cwd=folder, check=True)
    done = subprocess.run([tmp_path / "caller"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
