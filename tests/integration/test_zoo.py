"""Every graph of the zoo on both paths, linked, run and compared with TensorFlow; and those that must be refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ColdforgeError
from builder.compiler.audit import audit_file
from builder.compiler.emit import emit_sources
from builder.compiler.emit.write_weights import format_weights_source
from builder.compiler.link.shared_library import link_library
from builder.compiler.lower import LoweringOptions, LoweringPath, lower_graph
from builder.compiler.lower.steps.attention_step import AttentionStep
from builder.compiler.lower.steps.control_step import CallStep, WhileStep
from builder.compiler.lower.steps.copy_step import CopyStep, RowStep
from builder.compiler.lower.steps.image_step import NormStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.recurrent_step import RecurrentStep
from builder.importers.graph import FrozenGraph
from builder.pipeline.preflight import check_graph
from builder.pipeline.preflight import require_buildable as require_preflight
from builder.verify.compare_answers import verify_library
from builder.verify.reference_answers import make_golden_file
from builder.verify.verification import require_passed
from tests.support.build import (
    CACHE,
    TARGET,
    build_library,
    compile_here,
    freeze_function,
    spec_of,
    write_golden,
)
from tests.support.days import share, today
from tests.support.run import run_library
from tests.support.zoo import CASES, REFUSED, Case

pytestmark = pytest.mark.integration

SAMPLES = 3

BIG_DAYS = 3
"""In which every network of ``keras.applications`` is built once."""

WITHOUT_WINOGRAD = {"inception_v3", "resnet50"}
"""So deep, with random weights, that F(4×4)'s rounding is three times what the tolerance leaves."""


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # tfcompile writes into the current folder


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], FrozenGraph]:
    """Traces and compiles a case once for all its tests, in a folder of its own."""

    graphs: dict[str, FrozenGraph] = {}

    def compile_case(case: Case) -> FrozenGraph:
        if case.name not in graphs:
            folder = tmp_path_factory.mktemp(case.name)
            graphs[case.name] = freeze_function(case.trace(), [f.name for f in case.feeds], folder)
            compile_here(graphs[case.name], folder)
        return graphs[case.name]

    return compile_case


QUICK = {
    "cond_inside_while", "conv2d_grouped_strided_dilated", "lstm", "mlp", "sort_ties", "stateful_random", "top_k",
    "wide_resnet",
}  # fmt: skip

OTHER_DAYS = {c.name for c in CASES if c.big} - {c.name for c in share([c for c in CASES if c.big], BIG_DAYS, today())}


def of_case(name: str) -> pytest.MarkDecorator:
    """Run all tests of a case in one process, which compiles its graph once."""
    return pytest.mark.xdist_group(f"zoo {name}")


def on_its_day(name: str, *more: Any) -> Any:
    """The parameters of a test of a case: a network that is not of today is built only where slow tests are wanted."""
    values = (next(c for c in CASES if c.name == name), *more)
    kinds = [pytest.mark.slow] * (name in OTHER_DAYS) + [pytest.mark.quick] * (name in QUICK)
    return pytest.param(*values, marks=[of_case(name), *kinds], id="-".join((name, *more)))


@pytest.mark.parametrize(("case", "path"), [on_its_day(c.name, p) for c in CASES for p in ("optimised", "faithful")])
def test_agrees_with_tensorflow(
    case: Case, path: LoweringPath, compiled: Callable[[Case], FrozenGraph], tmp_path: Path
) -> None:
    graph = compiled(case)
    assert check_graph(graph).unsupported == ()
    spec = spec_of(case.name, case.absolute, case.relative)
    options = LoweringOptions(allow_winograd=case.name not in WITHOUT_WINOGRAD)
    library = build_library(graph, spec, tmp_path, path, options)
    assert audit_file(library.path, TARGET).violations == ()
    samples = [case.sample(i) for i in range(SAMPLES)]
    if case.random:
        for answers in run_library(library.path, [[s[f.name] for f in case.feeds] for s in samples]):
            assert all(np.isfinite(a).all() for a in answers)
        return
    if not graph.golden_path.exists():
        write_golden(graph, samples)
    require_passed(verify_library(library.path, graph, spec))


@of_case("efficientnet_b0")
def test_one_wrong_weight_is_noticed_where_tensorflow_is_least_certain(
    compiled: Callable[[Case], FrozenGraph], tmp_path: Path
) -> None:
    """One of five million: what is allowed for TensorFlow's own uncertainty excuses nothing else."""
    case = next(c for c in CASES if c.name == "efficientnet_b0")
    graph, spec = compiled(case), spec_of(case.name, case.absolute, case.relative)
    if not graph.golden_path.exists():
        write_golden(graph, [case.sample(i) for i in range(SAMPLES)])
    sources = emit_sources(lower_graph(graph.folder / "graph_metadata.o", graph, CACHE).program, spec, TARGET, tmp_path)
    weights = np.fromfile(sources.weights, np.float32)
    weights[weights.size // 2] = 0.0
    weights.tofile(sources.weights)
    (tmp_path / "weights.S").write_text(format_weights_source(sources.weights))
    library = link_library(sources, [graph.folder / "graph.o"], TARGET, tmp_path, CACHE / "zig")
    verification = verify_library(library.path, graph, spec)
    assert verification.outputs[0].sensitivity > 1e-5
    assert not verification.passed


@of_case("normalised_spectrum")
def test_a_golden_input_that_tensorflow_is_undecided_on_stops_no_build(
    compiled: Callable[[Case], FrozenGraph], tmp_path: Path
) -> None:
    """Of silence: 0 / 0, or what is left of a logarithm's last bit."""
    graph = compiled(next(c for c in CASES if c.name == "normalised_spectrum"))
    own, spec = replace(graph, folder=tmp_path), spec_of("normalised_spectrum")
    shutil.copy(graph.graph_path, own.graph_path)
    make_golden_file(spec, own)
    library = build_library(graph, spec, tmp_path)
    verification = verify_library(library.path, own, spec)
    require_passed(verification)
    assert "zeros" not in verification.cases
    assert len(verification.cases) == 5
    assert [text for text in verification.warnings if text.startswith("golden input zeros decides nothing: ")]


@pytest.mark.parametrize(
    "case", map(on_its_day, ["mobilenet_v2", "resnet50", "wide_resnet", "efficientnet_b0", "densenet121"])
)
def test_convolutions_run_as_layers(case: Case, compiled: Callable[[Case], FrozenGraph]) -> None:
    """Falling back is never wrong, so nothing but this would notice it."""
    graph = compiled(case)
    outcome = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE)
    assert outcome.layer_share >= 0.95
    layers = [note for note in outcome.notes if note.kind == "layer"]
    # BatchNorm of the network's many convolutions went into their weights, or is a second output.
    folded = [n for n in layers if {"affine", "second output"} & set(n.matched)]
    assert len(folded) >= len(layers) / 3


@of_case("attentions")
def test_attention_is_one_step_with_any_mask(compiled: Callable[[Case], FrozenGraph]) -> None:
    graph = compiled(next(c for c in CASES if c.name == "attentions"))
    steps = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE).program.steps
    found = [step for step in steps if isinstance(step, AttentionStep)]
    assert [step.mask and step.mask.kind for step in found] == ["chosen", "causal", None, "added", "chosen"]
    assert [step.outer for step in found] == [(1, 2, 3), (1, 2, 4), (2, 2, 2), (1, 2, 6), (1, 2, 6)]
    assert [step.safe for step in found] == [False] * 4 + [True]
    # Of the mask that is added, the ids are read themselves.
    assert [step.mask and step.mask.type for step in found][3] == "set"


@of_case("attention_of_one")
def test_attention_of_one_sequence_is_one_step(compiled: Callable[[Case], FrozenGraph]) -> None:
    graph = compiled(next(c for c in CASES if c.name == "attention_of_one"))
    steps = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE).program.steps
    assert [step.safe for step in steps if isinstance(step, AttentionStep)] == [True]


@of_case("pixels_that_are_left")
def test_layers_run_before_and_after_what_the_data_cuts_off(compiled: Callable[[Case], FrozenGraph]) -> None:
    """XLA makes such sizes fixed ones before it makes kernels; the samples keep no pixel, some, and all."""
    case = next(c for c in CASES if c.name == "pixels_that_are_left")
    graph = compiled(case)
    outcome = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE)
    assert outcome.straight
    assert outcome.layer_share >= 0.95
    assert [note.kind for note in outcome.notes].count("layer") == 3
    assert {int(case.sample(i)["limit"]) for i in range(SAMPLES)} == {-1, 0, 1}


@of_case("boxes_that_are_left")
def test_kernels_with_a_loop_inside_stand_among_the_others(compiled: Callable[[Case], FrozenGraph]) -> None:
    """Of ``tf.unique`` and ``tf.map_fn``, where the data decides a size: with memory of their own."""
    graph = compiled(next(c for c in CASES if c.name == "boxes_that_are_left"))
    outcome = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE)
    assert outcome.straight
    calls = [step for step in outcome.program.steps if isinstance(step, CallStep)]
    assert len(calls) == 2
    for call in calls:
        kernels = [step for step in call.body if isinstance(step, KernelStep)]
        assert len(kernels) == 1
        assert sum(isinstance(step, CopyStep) for step in call.body) == len(call.body) - 1 >= 2


@of_case("recurrent_of_other_kinds")
def test_products_of_a_recurrent_network_leave_its_loops(compiled: Callable[[Case], FrozenGraph]) -> None:
    """Of its input, for all steps at once; what depends on the step before stays inside, as a layer."""
    graph = compiled(next(c for c in CASES if c.name == "recurrent_of_other_kinds"))
    outcome = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE)
    loops = [step for step in outcome.program.steps if isinstance(step, WhileStep)]
    before = [step.in_size[1] for step in outcome.program.steps if isinstance(step, LayerStep)]
    assert len(loops) == 3
    assert before == [20, 20, 20]
    for loop in loops:
        kinds = [type(step) for step in loop.body]
        assert (kinds.count(LayerStep), kinds.count(RowStep)) == (1, 1)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        pytest.param("recurrent_wide", "lstm lstm gru", marks=of_case("recurrent_wide")),
        pytest.param("recurrent_states", "lstm gru", marks=of_case("recurrent_states")),
    ],
)
def test_a_recurrent_layer_is_one_step(compiled: Callable[[Case], FrozenGraph], name: str, kinds: str) -> None:
    graph = compiled(next(c for c in CASES if c.name == name))
    outcome = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE)
    steps = outcome.program.steps
    assert not any(isinstance(step, WhileStep) for step in steps)
    assert [step.kind for step in steps if isinstance(step, RecurrentStep)] == kinds.split()


@of_case("layer_norms")
def test_a_layer_norm_is_one_step(compiled: Callable[[Case], FrozenGraph]) -> None:
    graph = compiled(next(c for c in CASES if c.name == "layer_norms"))
    outcome = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE)
    found = [(step.kind, step.channels) for step in outcome.program.steps if isinstance(step, NormStep)]
    assert sorted(found) == [("RMS norm", 48), *(("layer norm", channels) for channels in (16, 24, 48, 48))]


@pytest.mark.quick
@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_is_refused_by_name(case: Case, tmp_path: Path) -> None:
    with pytest.raises(ColdforgeError, match=case.refused_op):
        require_preflight(check_graph(freeze_function(case.trace(), [f.name for f in case.feeds], tmp_path)))
