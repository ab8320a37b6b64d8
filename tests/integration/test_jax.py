"""A JAX model: a StableHLO program, inside a SavedModel or as the process of another framework leaves it.

What JAX itself answers, NumPy answers here; `make test-frameworks` asks JAX.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from builder.base.arrays import save_arrays
from builder.base.errors import ImportModelError, VerifyError
from builder.base.tf import import_tensorflow
from builder.config import ImageSpec, ModelSpec, OutputSpec
from builder.importers.graph import FrozenGraph
from builder.importers.model_import import freeze_model
from builder.importers.ports import ModelPorts, PortInfo
from builder.importers.stablehlo import STABLEHLO
from builder.importers.stablehlo_program import StableHloProgram, open_program
from builder.pipeline import preflight
from builder.pipeline.preflight import format_preflight
from builder.verify import framework_answers, reference_answers
from builder.verify.golden import GoldenFile
from tests.conftest import ROOT
from tests.support.models import freeze, run_graph, spec_for

pytestmark = pytest.mark.integration

CALLING_CONVENTION = 10


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The SavedModel that jax2tf makes of the program: its one op, with the weights inside."""
    return save(tmp_path / "jax", (ROOT / "tests" / "data" / "dense.stablehlo").read_bytes())


def save(folder: Path, module: bytes) -> Path:
    tf = import_tensorflow()
    from tensorflow.compiler.tf2xla.python.xla import call_module

    @tf.function(input_signature=[tf.TensorSpec((1, 16), tf.float32, "x")])  # type: ignore[untyped-decorator]
    def serve(x: object) -> object:
        (y,) = call_module(
            [x], version=CALLING_CONVENTION, module=module, Tout=[tf.float32], Sout=[(1, 5)], platforms=["CPU"]
        )
        return {"y": y}

    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": serve})
    return folder


def test_a_program_with_ops_that_tensorflow_does_not_know(tmp_path: Path) -> None:
    module = (ROOT / "tests" / "data" / "dense.stablehlo").read_bytes()
    assert module.count(b"exponential_v2") == 1
    saved = save(tmp_path / "jax", module.replace(b"exponential_v2", b"exponential_v9"))
    with pytest.raises(ImportModelError, match=r"written for StableHLO 1\.15\.0, .*jax\.export"):
        freeze(saved, tmp_path)


def test_the_forecast_counts_the_weights_inside_the_program(saved: Path, tmp_path: Path) -> None:
    graph = freeze(saved, tmp_path)
    found = preflight.check_graph(graph)
    assert found.ok
    assert 2_016 <= found.weights <= 2_500
    assert "Forecast: 2." in format_preflight(found)


def test_the_frozen_graph_answers_as_the_program_does(saved: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    first, second = (generator.standard_normal(shape, np.float32) for shape in ((16, 24), (24, 5)))
    x = generator.standard_normal((1, 16), np.float32)
    expected = np.exp(np.maximum(x @ first, 0) @ second)
    (answer,) = run_graph(freeze(saved, tmp_path), {"x": x}).values()
    np.testing.assert_allclose(answer, expected / expected.sum(), rtol=1e-5)


def test_programs_are_written_for_the_stablehlo_that_tensorflow_has() -> None:
    import_tensorflow()
    from tensorflow.compiler.mlir.stablehlo import stablehlo

    assert stablehlo.get_current_version() == STABLEHLO


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelSpec, FrozenGraph]:
    """The program with grey pixels before it and an activation after it, and TensorFlow's golden answers."""
    folder = tmp_path_factory.mktemp("program")
    module = (ROOT / "tests" / "data" / "dense.stablehlo").read_bytes()
    feeds, fetches = (PortInfo("x", "float32", (1, 16)),), (PortInfo("y", "float32", (1, 5)),)
    StableHloProgram(module, CALLING_CONVENTION, {}, ModelPorts(feeds, fetches), feeds, fetches).save(folder)
    image = ImageSpec(None, 4, 4, "grey", scale=(1 / 255,))
    spec = spec_for(folder / "model.jax", image=image, outputs=(OutputSpec("y", None, activation="sigmoid"),))
    graph = freeze_model(open_program(folder), spec, folder / "import")
    reference_answers.make_golden_file(spec, graph)
    return spec, graph


def dense(x: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(0)
    first, second = (generator.standard_normal(shape, np.float32) for shape in ((16, 24), (24, 5)))
    expected = np.exp(np.maximum(x @ first, 0) @ second)
    return expected / expected.sum()


def answered(graph: FrozenGraph, folder: Path, error: float = 0.0) -> None:
    """Write what the framework answers to all that it is asked, ``error`` too much in one element."""
    framework_answers.write_program_inputs(graph, folder)
    with np.load(folder / framework_answers.ASKED) as asked:
        answers = {key: dense(asked[key]) for key in asked.files}
    answers["random-0/0"][0, 1] += error
    save_arrays(folder / framework_answers.ANSWERED, answers)


def test_golden_answers_are_the_frameworks_own(imported: tuple[ModelSpec, FrozenGraph], tmp_path: Path) -> None:
    """It is asked with what enters the program, pixels scaled, and its answers go through the activation."""
    spec, graph = imported
    answered(graph, tmp_path, error=2e-6)
    framework_answers.adopt_answers(spec, graph, tmp_path, "JAX")
    with GoldenFile.open(graph.golden_path) as golden:
        pixels = golden.read_feed("random-0", "x").reshape(1, 16)
        wanted = dense(pixels.astype(np.float32) / 255)
        wanted[0, 1] += 2e-6
        found = golden.read_fetch("random-0", "y")
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-wanted)), rtol=2e-7)


def test_a_program_that_answers_otherwise(imported: tuple[ModelSpec, FrozenGraph], tmp_path: Path) -> None:
    spec, graph = imported
    answered(graph, tmp_path, error=0.01)
    with pytest.raises(VerifyError, match=r"does not answer as JAX does: output 'y'.*random-0"):
        framework_answers.adopt_answers(spec, graph, tmp_path, "JAX")


def test_an_input_on_which_two_runs_of_the_program_differ_by_rounding(
    imported: tuple[ModelSpec, FrozenGraph], tmp_path: Path
) -> None:
    """It judges no library; and where too few are left, it is no rounding."""
    spec, graph = imported
    answered(graph, tmp_path)
    with np.load(tmp_path / framework_answers.ANSWERED) as file:
        answers = {key: file[key] for key in file.files}
    save_arrays(
        tmp_path / framework_answers.ANSWERED, {key: value + np.float32(1e-3) for key, value in answers.items()}
    )
    with pytest.raises(VerifyError, match="does not answer as JAX does"):
        framework_answers.adopt_answers(spec, graph, tmp_path, "JAX")
    answers["random-0/0"][0, 1] += 1e-3
    save_arrays(tmp_path / framework_answers.ANSWERED, answers)
    framework_answers.adopt_answers(spec, graph, tmp_path, "JAX")
    with GoldenFile.open(graph.golden_path) as golden:
        assert "random-0" not in golden.cases
        assert "JAX" in golden.undecided["random-0"]
        assert len(golden.cases) >= 3


def test_a_case_without_an_answer(imported: tuple[ModelSpec, FrozenGraph], tmp_path: Path) -> None:
    spec, graph = imported
    framework_answers.write_program_inputs(graph, tmp_path)
    with np.load(tmp_path / framework_answers.ASKED) as asked:
        answers = {key: dense(asked[key]) for key in asked.files if not key.startswith("random-1")}
    save_arrays(tmp_path / framework_answers.ANSWERED, answers)
    with pytest.raises(VerifyError, match="JAX has no answer to the golden inputs random-1"):
        framework_answers.adopt_answers(spec, graph, tmp_path, "JAX")


SUM = """
module {
  func.func public @main(%x: tensor<1x4xf32>, %s: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
    %0 = stablehlo.add %x, %s : tensor<1x4xf32>
    return %0, %0 : tensor<1x4xf32>, tensor<1x4xf32>
  }
}
"""


@pytest.fixture
def summing(tmp_path: Path) -> tuple[ModelSpec, FrozenGraph]:
    """A program that adds each input to a state, which is 1, 2, 3, 4 at first, and TensorFlow's golden answers."""
    import_tensorflow()
    from tensorflow.compiler.mlir.stablehlo import stablehlo

    module = stablehlo.serialize_portable_artifact_str(SUM, STABLEHLO)
    feeds, fetches = (PortInfo("x", "float32", (1, 4)),), (PortInfo("y", "float32", (1, 4)),)
    states = {"layer/total": np.array([[1, 2, 3, 4]], np.float32)}
    ports = ModelPorts(feeds, fetches)
    StableHloProgram(module, CALLING_CONVENTION, {}, ports, feeds, fetches, states=states).save(tmp_path)
    spec = spec_for(tmp_path / "model.jax")
    graph = freeze_model(open_program(tmp_path), spec, tmp_path / "import")
    reference_answers.make_golden_file(spec, graph)
    return spec, graph


def test_states_of_a_program_last_from_call_to_call(summing: tuple[ModelSpec, FrozenGraph]) -> None:
    _, graph = summing
    assert [state.spec.name for state in graph.states] == ["layer/total"]
    total = np.array([[1, 2, 3, 4]], np.float32)
    with GoldenFile.open(graph.golden_path) as golden:
        for case in golden.cases:
            total = total + golden.read_feed(case, "x")
            np.testing.assert_array_equal(golden.read_fetch(case, "y"), total)


def test_answers_after_one_that_judges_nothing(summing: tuple[ModelSpec, FrozenGraph], tmp_path: Path) -> None:
    """The golden inputs of a model with states are one sequence of calls, so that it ends there."""
    spec, graph = summing
    framework_answers.write_program_inputs(graph, tmp_path)
    total, answers = np.array([[1, 2, 3, 4]], np.float32), {}
    with np.load(tmp_path / framework_answers.ASKED) as asked:
        keys = list(asked.files)
        for key in keys:
            answers[key] = total = total + asked[key]
    answers[keys[3]] = answers[keys[3]] + np.float32(1e-3)
    save_arrays(tmp_path / framework_answers.ANSWERED, answers)
    framework_answers.adopt_answers(spec, graph, tmp_path, "LiteRT")
    with GoldenFile.open(graph.golden_path) as golden:
        assert [f"{case}/0" for case in golden.cases] == keys[:3]
        assert set(golden.undecided) == {key.removesuffix("/0") for key in keys[3:]}
