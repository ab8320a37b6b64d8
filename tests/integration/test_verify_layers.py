"""``coldforge verify``: a library beside TensorFlow, step by step; where a fault is planted, its layer is named."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from builder.base.project import Project
from builder.cli import main
from builder.cli.command import load_named_spec
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.program import Weight
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.measure.compare_layers import LayerComparison, compare_steps, format_layers
from builder.package.bundle import Bundle
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.import_model import import_variants
from builder.pipeline.lower_program import ATTEMPTS, ResolvedOptions, lower_variant
from builder.pipeline.workspace import Workspace
from builder.verify.golden import GoldenFile
from tests.conftest import ROOT
from tests.support.results import printed

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

CASE = "photo-face"


def test_the_command(digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "digits", "--layers", "--json", "--quiet"]) == 0
    found = printed("verify", capsys.readouterr().out)
    assert found["verification"]["passed"]
    assert found["layers"]["first"] is None
    ops = [row["op"].rpartition("/")[2] for row in found["layers"]["rows"]]
    assert ops == ["mul", "Relu", "BiasAdd", "Softmax"]
    assert not any(row["off"] for row in found["layers"]["rows"])
    assert main(["verify", "digits", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "over 8 golden inputs" in shown
    assert "step" not in shown


def test_images_of_ones_own_are_read_where_the_model_is(digits: Bundle, tmp_path: Path) -> None:
    """In the sandbox, with the function's own decoders."""
    for name in ("face", "coffee"):
        shutil.copy(ROOT / "tests" / "data" / f"{name}.jpg", tmp_path / f"{name}.jpg")
    spec = replace(load_named_spec("digits", Project.in_current_folder()), samples=tmp_path)
    imported = import_variants(Workspace.from_spec(spec, Project(tmp_path / "project", ROOT)))
    with GoldenFile.open(imported.graph.golden_path) as golden:
        assert golden.cases[-2:] == ("sample-0", "sample-1")
        assert not np.array_equal(*(golden.read_feed(case, "image") for case in golden.cases[-2:]))


@dataclass(frozen=True)
class Made:
    """A model, compiled and lowered."""

    ws: Workspace
    compiled: CompiledVariant
    lowered: LoweredProgram

    def compare(self, lowered: LoweredProgram | None = None) -> LayerComparison:
        return compare_steps(self.ws, self.compiled, lowered or self.lowered, CASE)


@pytest.fixture(scope="module")
def made(emotion: Bundle) -> Made:
    project = Project.in_current_folder()
    ws = Workspace.from_spec(load_named_spec("emotion", project), project)
    compiled = compile_first(ws)
    return Made(ws, compiled, lower_variant(ws, compiled, ResolvedOptions(ws.spec), ATTEMPTS[0]))


def test_a_value_that_is_another_one_than_tensorflows_is_no_fault(made: Made) -> None:
    """XLA divides a mean by its count in a later step: what the step leaves is the sum."""
    found = made.compare()
    assert len(found.rows) == 30
    assert [row.op.rpartition("/")[2] for row in found.rows if row.off] == ["Mean"]
    assert found.first is None
    assert format_layers(found).endswith("no step is off")


def with_fault(lowered: LoweredProgram, step: LayerStep) -> LoweredProgram:
    """The largest of the weights of ``step`` is a tenth less."""

    def changed(weight: Weight) -> Weight:
        if weight.offset != step.weights.offset:
            return weight
        numbers = np.frombuffer(weight.data, np.float32).copy()
        numbers[np.abs(numbers).argmax()] *= 0.9
        return replace(weight, data=numbers.tobytes())

    program = lowered.program
    return replace(lowered, program=replace(program, weights=tuple(map(changed, program.weights))))


@pytest.mark.parametrize("number", [0, 11])
def test_a_planted_fault_is_named(made: Made, number: int) -> None:
    layers = [step for step in made.lowered.program.steps if isinstance(step, LayerStep)]
    found = made.compare(with_fault(made.lowered, layers[number]))
    assert found.first is not None
    assert found.first.step == layers[number].name
    assert found.first.error > found.first.allowed
    assert found.first.error == pytest.approx(abs(found.first.ours - found.first.theirs), rel=1e-3)
    assert math.prod(found.first.shape) > max(found.first.place)
    after = [row.step for row in found.rows if row.off]
    assert after[0] == layers[number].name
    assert len(after) > 3  # it goes on from there
    assert f"first step that is off: {layers[number].name}, {found.first.op} [1, " in format_layers(found)
