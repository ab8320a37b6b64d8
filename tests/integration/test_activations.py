"""Layers that round their input: the zoo against NumPy's whole numbers and TensorFlow's roundings, and whole builds."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.progress import Progress
from builder.base.project import Project
from builder.base.targets import TARGETS, host_target
from builder.cli import main
from builder.compiler.lower import LoweredProgram, LoweringOptions, cascade, lower_graph
from builder.compiler.lower.compress import WeightRules
from builder.compiler.lower.decisions import list_decisions
from builder.compiler.lower.packing import INTEGER
from builder.compiler.lower.steps.base import walk_steps
from builder.compiler.lower.steps.cascade_step import CascadeStep
from builder.compiler.lower.steps.image_step import PoolStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import read_spec
from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.pipeline.compute_answers import load_golden_inputs
from builder.pipeline.resolve_options import choose_weight_type, resolve_spec
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.verify.compare_answers import verify_library
from builder.verify.library.loaded_library import OpenedModel
from builder.verify.quantise import rounded_reference
from builder.verify.quantise.answer_accuracy import run_once
from builder.verify.quantise.calibrate import measure_ranges
from builder.verify.quantise.precision import SMALLEST_FIRST, PrecisionChoice, Ratio, Timing, TriedPrecision
from builder.verify.step_probes import build_observable as build_observed
from builder.verify.step_probes import observe_steps, view_image, view_input
from builder.verify.verification import Verification
from tests.conftest import ROOT
from tests.integration.test_batches import convolutions
from tests.integration.test_weights import answers, project
from tests.support import integer
from tests.support.build import CACHE, TARGET, compile_here, freeze_function, spec_of, write_golden
from tests.support.models import save_keras
from tests.support.results import printed
from tests.support.zoo import CASES, Case
from tests.support.zoo.case import f32, weights

__all__ = ["project"]

pytestmark = pytest.mark.integration


def wired() -> Any:
    """What a layer may have around it: padding of one side, a stride, dilation, channels that fill no panel, a residual
    with a scale, clamps, and two layers of one input."""
    import tensorflow as tf

    a, b, c, d = weights(3, 3, 19, 40), weights(3, 3, 40, 40), weights(1, 1, 40, 24), weights(5, 5, 40, 24)

    def call(x: Any) -> Any:
        y = tf.nn.relu6(tf.nn.conv2d(x, a, 2, "SAME"))
        y = tf.nn.relu(tf.nn.conv2d(y, b, 1, "SAME", dilations=2) + y * 0.5)
        return tf.nn.conv2d(y, c, 1, "VALID")[:, :3, :3], tf.nn.conv2d(y, d, 1, "VALID")

    return call


def pooled() -> Any:
    """A maximum between layers, which two of them read; and one that is an answer as well, and so of floats."""
    import tensorflow as tf

    a, b, c, d = weights(3, 3, 20, 32), weights(3, 3, 32, 24), weights(1, 1, 32, 48), weights(3, 3, 24, 16)

    def call(x: Any) -> Any:
        y = tf.nn.max_pool2d(tf.nn.relu6(tf.nn.conv2d(x, a, 1, "SAME")), 3, 2, "SAME")
        z = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(y, b, 1, "SAME")), 2, 2, "VALID")
        return tf.nn.conv2d(y, c, 2, "VALID"), z, tf.nn.conv2d(z, d, 1, "SAME")

    return call


def inverted() -> Any:
    """Two blocks of MobileNetV2's kind over pictures so large that they run in cascades, with swish in one of them."""
    import tensorflow as tf

    first, expand, project = weights(3, 3, 3, 24), weights(1, 1, 24, 64), weights(1, 1, 64, 24)
    again, back = weights(1, 1, 24, 128), weights(1, 1, 128, 24)
    small, large, bias = weights(3, 3, 64, 1), weights(5, 5, 128, 1), weights(24)

    def call(x: Any) -> Any:
        y = tf.nn.relu6(tf.nn.conv2d(x, first, 1, "SAME"))
        y = tf.nn.swish(tf.nn.conv2d(y, expand, 1, "SAME"))
        y = tf.nn.relu6(tf.nn.depthwise_conv2d(y, small, (1, 2, 2, 1), "SAME"))
        y = tf.nn.conv2d(y, project, 1, "SAME") + bias
        z = tf.nn.relu6(tf.nn.conv2d(y, again, 1, "SAME"))
        z = tf.nn.relu6(tf.nn.depthwise_conv2d(z, large, (1, 1, 1, 1), "SAME"))
        return tf.nn.conv2d(z, back, 1, "SAME") + y

    return call


OWN = (
    Case("wired", wired, (f32("x", 2, 15, 13, 19),)),
    Case("pooled", pooled, (f32("x", 2, 15, 14, 20),)),
    Case("inverted", inverted, (f32("x", 1, 96, 100, 3),)),
)


@dataclass(frozen=True)
class Built:
    """A library of integer sums, of a graph of the zoo; and one that can be observed, with floats between layers."""

    graph: FrozenGraph
    lowered: LoweredProgram
    library: Path
    floats: LoweredProgram
    observed: Path
    verification: Verification


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    made: dict[str, Built] = {}

    def build(name: str) -> Built:
        if name not in made:
            case = next(c for c in (*CASES, *OWN) if c.name == name)
            folder = tmp_path_factory.mktemp(name)
            graph = freeze_function(case.trace(), [f.name for f in case.feeds], folder)
            compile_here(graph, folder)
            write_golden(graph, [case.sample(i) for i in range(4)])
            made[name] = _build(case, graph, folder)
        return made[name]

    return build


def _build(case: Case, graph: FrozenGraph, folder: Path) -> Built:
    spec, rules = spec_of(case.name, case.absolute, case.relative), WeightRules("int8")
    compiled, metadata = CompiledGraph(graph.folder, TARGET, "", "", 0.0), graph.folder / "graph_metadata.o"
    floats = lower_graph(metadata, graph, CACHE, options=LoweringOptions(weights=rules, whole=True))
    steps = {n: s for n, s in enumerate(walk_steps(floats.program.steps)) if isinstance(s, LayerStep)}
    steps = {n: s for n, s in steps.items() if s.weight_type == "int8" and s.geometry.groups == 1}
    (folder / "floats").mkdir()
    (folder / "bytes").mkdir()
    library = build_observed(floats.program, spec, compiled, folder / "floats", CACHE)
    quantisations, kept = measure_ranges(library, floats, graph, load_golden_inputs(spec, graph), steps)
    assert not kept
    assert quantisations.keys() == {step.layer for step in steps.values()}
    options = LoweringOptions(weights=rules, quantisations=quantisations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cascade, "CALL_NS", 0.0)  # as many layers in cascades as can be
        lowered = lower_graph(metadata, graph, CACHE, options=options)
    library = build_observed(lowered.program, spec, compiled, folder / "bytes", CACHE)
    between = lower_graph(metadata, graph, CACHE, options=replace(options, whole=True))
    (folder / "between").mkdir()
    observed = build_observed(between.program, spec, compiled, folder / "between", CACHE)
    same = folder / "bytes"
    rounded_reference.save_rounded(same / "restored.npz", lowered.restored, lowered.rounded)
    rounded_reference.make_rounded_answers(graph, same / "restored.npz", same)
    rounding = rounded_reference.load_rounding(same, {"int8"})
    assert rounding.golden is not None
    return Built(graph, lowered, library, between, observed, verify_library(library, graph, spec, rounding=rounding))


def output_of(step: LayerStep, arena: np.ndarray) -> np.ndarray:
    """What ``step`` wrote: [batch, height, width, channels]."""
    assert step.output is not None
    return view_image(step.output, step.geometry.out_shape, arena)


NAMES = ("dense_wide", "mlp_batch_64", "wide_resnet", "wired", "pooled", "inverted")


@pytest.mark.parametrize("name", ["dense_wide", "wide_resnet", "wired", "pooled"])
def test_every_layer_sums_the_whole_numbers_of_its_bytes(name: str, built: Callable[[str], Built]) -> None:
    """In the program itself: what each layer wrote is NumPy's answer to the bytes of what it read."""
    made = built(name)
    program, graph = made.floats.program, made.graph
    steps = walk_steps(program.steps)
    wanted = {n: s for n, s in enumerate(steps) if isinstance(s, LayerStep) and s.algorithm in INTEGER}
    assert wanted
    expected: dict[int, np.ndarray] = {}
    worst = dict.fromkeys(wanted, 0.0)

    def look(number: int, arena: np.ndarray) -> None:
        if (step := wanted.get(number - 1)) is not None:
            theirs = expected[number - 1]
            error = np.abs(output_of(step, arena) - theirs) / np.abs(theirs).max(initial=1e-30)
            worst[number - 1] = max(worst[number - 1], float(error.max()))
        if (step := wanted.get(number)) is not None:
            view = step.epilogue.residual
            shape = step.geometry.out_shape
            residual = None if view is None else view_image(view, shape, arena)
            expected[number] = integer.layer(step, program, view_input(step, arena), residual)

    observe_steps(made.observed, program, graph, load_golden_inputs(spec_of(name), graph).runs, look)
    assert expected.keys() == wanted.keys()
    # A byte that is off by one is off by a part in 255 * 127 of one product. Where no bytes are multiplied, Winograd's
    # sums are off by the rounding of its transforms.
    bounds = {n: 2e-6 if s.algorithm == "integer" else 2e-5 for n, s in wanted.items()}
    assert all(error < bounds[number] for number, error in worst.items()), worst


def test_a_maximum_of_bytes_where_nothing_else_is_wanted_of_it(built: Callable[[str], Built]) -> None:
    pools = [step for step in walk_steps(built("pooled").lowered.program.steps) if isinstance(step, PoolStep)]
    assert [step.rounded is not None for step in pools] == [True, False]


@pytest.mark.parametrize(("name", "stored"), [("wide_resnet", 4), ("wired", 1), ("pooled", 1), ("inverted", 4)])
def test_bytes_between_layers_change_no_bit(name: str, stored: int, built: Callable[[str], Built]) -> None:
    """``stored``: layers that store bytes for others."""
    made = built(name)
    steps = [step for step in walk_steps(made.lowered.program.steps) if isinstance(step, LayerStep)]
    assert sum(step.rounded is not None for step in steps) == stored
    assert any(step.input_rounded for step in steps) == (stored > 0)
    for feeds in load_golden_inputs(spec_of(name), made.graph).runs:
        with OpenedModel(made.library) as ours, OpenedModel(made.observed) as floats:
            for one, other in zip(run_once(ours, made.graph, feeds), run_once(floats, made.graph, feeds), strict=True):
                np.testing.assert_array_equal(one, other)


def test_cascades_of_bytes_change_no_bit(built: Callable[[str], Built]) -> None:
    """On any number of threads, with layers of floats between those of bytes."""
    made = built("inverted")
    cascades = [step for step in made.lowered.program.steps if isinstance(step, CascadeStep)]
    assert len(cascades) == 2
    assert {layer.algorithm for step in cascades for layer in step.layers} == {"direct", "integer", "depthwise"}
    assert any(layer.output is None for step in cascades for layer in step.layers[:-1])  # a rolling buffer of bytes
    decided = list_decisions(made.lowered.program, made.lowered.notes)
    found = [decided.index(d) for d in decided if d.kind == "cascade"]
    for at, step in zip(found, cascades, strict=True):
        assert decided[at].packing == {"rows": step.rows}
        assert [d.step for d in decided[at + 1 : at + 1 + len(step.layers)]] == [layer.name for layer in step.layers]
    assert made.lowered.program.arena_touched < made.floats.program.arena_size // 2
    assert not any(isinstance(step, CascadeStep) for step in made.floats.program.steps)
    (feeds, *_) = load_golden_inputs(spec_of("inverted"), made.graph).runs
    with OpenedModel(made.observed) as whole:
        expected = run_once(whole, made.graph, feeds)
    for threads in (1, 2, 5):
        with OpenedModel(made.library, threads) as ours:
            for one, other in zip(run_once(ours, made.graph, feeds), expected, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [pytest.param(NAMES[0], marks=pytest.mark.quick), *NAMES[1:]])
def test_agrees_with_tensorflow_that_rounds_alike(name: str, built: Callable[[str], Built]) -> None:
    verification = built(name).verification
    assert verification.failures == ()
    assert verification.passed, verification
    pairs = list(zip(verification.outputs, verification.same_weights, strict=True))
    assert pairs
    assert all(coarse.max_absolute > 3 * same.max_absolute for coarse, same in pairs), pairs


def test_a_wrong_range_does_not_pass(built: Callable[[str], Built], tmp_path: Path) -> None:
    """The proof is one: TensorFlow that rounds the inputs over half the range does not agree."""
    made = built("wide_resnet")
    wrong = [
        replace(one, quantisation=one.quantisation and replace(one.quantisation, scale=one.quantisation.scale / 2))
        for one in made.lowered.rounded
    ]
    rounded_reference.save_rounded(tmp_path / "wrong.npz", made.lowered.restored, wrong)
    rounded_reference.make_rounded_answers(made.graph, tmp_path / "wrong.npz", tmp_path)
    verification = verify_library(
        made.library, made.graph, spec_of("wide_resnet"), rounding=rounded_reference.load_rounding(tmp_path, {"int8"})
    )
    assert not all(row.passed for row in verification.same_weights)
    assert not verification.too_coarse


# Whole builds.

INT8 = '[weights]\ntype = "int8"\n{weights}\n[activations]\ntype = "int8"\n{activations}\n'


def bundled(
    project: Project, weights: str = "", activations: str = "", batch: object = 1, more: str = ""
) -> tuple[Bundle, Any]:
    text = f'[model]\nsource = "small.keras"\nname = "small"\nbatch = {batch}\n'
    (project.root / "model.toml").write_text(text + INT8.format(weights=weights, activations=activations) + more)
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    bundle = Bundle.load(project.dist / "small")
    return bundle, json.loads(bundle.manifest.read_text())


def pictures(items: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((items, 24, 24, 16)).astype(np.float32)


def test_several_batches_have_the_same_ranges(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    model = convolutions()
    save_keras(model, project.root / "small.keras")
    more = '[[layers]]\nname = "*/scores*"\nactivations = "float32"\n'
    bundle, manifest = bundled(project, batch=[1, 4], more=more)
    said = capsys.readouterr()
    assert "2 of 4 layers round their input to int8" in said.out
    layers = {layer["layer"]: layer for layer in manifest["lowering"]["weights"]["layers"]}
    rounded = {name for name, layer in layers.items() if "input" in layer}
    assert len(rounded) == 2
    assert {layer.get("input_kept", "") for layer in layers.values()} == {"", "its weights are float32"}
    algorithms = [step["algorithm"] for step in manifest["lowering"]["fused_steps"] if step["kind"] == "layer"]
    assert sum(algorithm in INTEGER for algorithm in algorithms) == 2  # once, as the batch runs in parts
    rows = manifest["verification"]["same_weights"]
    assert [row["output"].partition(" in a ")[2] for row in rows] == ["", "batch of 4"]
    assert all(row["passed"] for row in rows)
    one, four = answers(bundle.library, pictures(1)), answers(bundle.library, pictures(4))
    np.testing.assert_allclose(one, four[:16], rtol=1e-4, atol=1e-5)
    theirs = model(pictures(4)).numpy()
    assert 1e-4 < np.abs(four.reshape(4, 16) - theirs).max() < 0.05


def test_new_weights_keep_the_ranges_of_the_library(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = convolutions()
    save_keras(model, project.root / "small.keras", 0)
    bundle, _ = bundled(project, weights='place = "layer"')
    first = answers(bundle.library, pictures(1))
    save_keras(model, project.root / "small.keras", 1)
    capsys.readouterr()
    assert main(["weights", "model.toml"]) == 0
    said = capsys.readouterr()
    assert "same weights" in said.out
    assert "link" not in said.err
    monkeypatch.setenv("COLDFORGE_WEIGHTS", str(project.dist / "small.weights"))
    second = answers(bundle.library, pictures(1))
    assert np.abs(first - second).max() > 0.02
    np.testing.assert_allclose(second, model(pictures(1)).numpy().ravel(), atol=0.05)


def test_the_models_own_test_program_and_explain(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    save_keras(convolutions(), project.root / "small.keras")
    bundled(project)
    capsys.readouterr()
    assert main(["selftest", "model.toml"]) == 0
    assert "PASSED" in capsys.readouterr().out
    assert main(["explain", "model.toml", "--seconds", "0.2"]) == 0
    said = capsys.readouterr().out
    assert re.search(r" integer .*\n", said)
    assert re.search(r"\S+/conv2d\S* +int8 +[\d,]+ +[\d,]+ +int8, -\d[\d.]* to \d[\d.]*$", said, re.MULTILINE)
    assert re.search(r"a depthwise filter +float32 +its weights are float32$", said, re.MULTILINE)


def test_an_export_builds_the_same_library(project: Project) -> None:
    save_keras(convolutions(), project.root / "small.keras")
    bundle, _ = bundled(project, more='[[layers]]\nname = "model/*/scores*/MatMul"\nactivations = "float32"\n')
    before = bundle.library.read_bytes()
    assert main(["export", "model.toml"]) == 0
    assert main(["bundle", str(project.dist / "small-export"), "--in", "host"]) == 0
    assert bundle.library.read_bytes() == before


def test_a_loop_keeps_its_floats(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    import keras
    from keras import layers as kl

    x = keras.Input((12, 32), name="x")
    save_keras(keras.Model(x, kl.Dense(5, name="scores")(kl.SimpleRNN(64)(x))), project.root / "small.keras")
    _, manifest = bundled(project)
    layers = manifest["lowering"]["weights"]["layers"]
    assert not any("input" in layer for layer in layers)
    assert any(layer.get("input_kept") == "the model has loops or branches" for layer in layers)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_sums_bytes(kind: str, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The products of the inputs, and of the states; TensorFlow rounds both alike."""
    import keras
    from keras import layers as kl

    x = keras.Input((12, 32), name="x")
    y = getattr(kl, kind)(80, return_sequences=True)(x)
    model = keras.Model(x, kl.Dense(5, name="scores")(getattr(kl, kind)(80, go_backwards=True)(y)))
    save_keras(model, project.root / "small.keras")
    bundle, manifest = bundled(project, batch=3)
    layers = manifest["lowering"]["weights"]["layers"]
    rounded = [layer["input"] for layer in layers if "input" in layer]
    assert rounded.count({"scale": 1 / 127, "zero": 128}) == 2
    assert len(rounded) == 4
    assert [row["passed"] for row in manifest["verification"]["same_weights"]] == [True]
    inputs = np.random.default_rng(1).standard_normal((3, 12, 32)).astype(np.float32)
    theirs = model(inputs).numpy()
    off = np.abs(answers(bundle.library, inputs).reshape(theirs.shape) - theirs).max()
    assert 1e-5 < off < 0.02 * np.abs(theirs).max()


def test_a_state_that_may_be_large_stays_floats(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    import keras
    from keras import layers as kl

    x, h = keras.Input((12, 32), name="x"), keras.Input((80,), name="h")
    y = kl.GRU(80)(x, initial_state=h)
    save_keras(keras.Model([x, h], kl.Dense(5, name="scores")(y)), project.root / "small.keras")
    _, manifest = bundled(project)
    layers = manifest["lowering"]["weights"]["layers"]
    assert sum("input" in layer for layer in layers) == 1
    assert any(layer.get("input_kept") == "its first state may be beyond 1" for layer in layers)


def test_a_model_with_state_is_measured_on_its_sequence(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    import keras
    from keras import layers as kl

    x = keras.Input(batch_shape=(1, 1, 32), name="x")
    y = kl.Dense(64, activation="tanh", name="before")(x)
    model = keras.Model(x, kl.Dense(48, name="scores")(kl.SimpleRNN(64, stateful=True, unroll=True)(y)))
    save_keras(model, project.root / "small.keras")
    _, manifest = bundled(project)
    assert any("input" in layer for layer in manifest["lowering"]["weights"]["layers"])
    assert manifest["verification"]["same_weights"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[[layers]]\nname = "no/such"\nactivations = "float32"\n', '"no/such" matches no layer'),
        ("[image]\nwidth = 24\nheight = 24\n", "there is no"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    more: str, message: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    import keras
    from keras import layers as kl

    x = keras.Input((24, 24, 3), name="x")
    model = keras.Model(x, kl.Dense(16, name="scores")(kl.Flatten()(kl.Conv2D(64, 3, strides=4)(x))))
    save_keras(model, project.root / "small.keras")
    images = 'images = "nowhere"' if "image" in more else ""
    text = '[model]\nsource = "small.keras"\nname = "small"\n' + INT8.format(weights="", activations=images)
    (project.root / "model.toml").write_text(text + more)
    assert main(["bundle", "model.toml", "--in", "host"]) == 10
    assert message in capsys.readouterr().err


HELD_OUT = ROOT / "build" / "digits" / "held_out.npz"
TIMED = "beside float32, in turns"


def write_auto(project: Project, more: str = "") -> Path:
    """model.toml of the digits with "auto" and int8 activations, measured on pictures that training left out.

    ``more`` is for [weights].
    """
    text = (ROOT / "examples" / "digits" / "model.toml").read_text(encoding="utf-8").replace('"../../', f'"{ROOT}/')
    text += f'[weights]\ntype = "auto"\naccuracy = 0.99\n{more}[activations]\ntype = "int8"\n'
    path = project.root / "digits.toml"
    path.write_text(f'{text}[golden]\nsamples = "{HELD_OUT}"\n')
    return path


def test_auto_measures_accuracy_and_time_and_takes_what_holds_in_both(
    project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is fastest here: output, manifest and library say the same of it, and so does a second build."""
    spec = write_auto(project)
    assert main(["bundle", str(spec), "--in", "host"]) == 0
    said = capsys.readouterr().err
    manifest = json.loads(Bundle.load(project.dist / "digits").manifest.read_text())
    found = PrecisionChoice.from_dict(manifest["auto"])
    assert found.inputs == "1,000 images of held_out.npz"
    assert tuple(one.kind for one in found.tried) == SMALLEST_FIRST[: len(found.tried)]
    assert all(0.95 < one.agreement <= 1 for one in found.tried)
    assert all(one.timing for one in found.tried if one.agreement >= 0.99)
    timing = found.tried[0].timing
    assert timing
    alone = [ratio for ratio in timing.ratios if ratio.threads == 1]
    assert [*(ratio.isa for ratio in alone), *timing.lacking] == TARGET.list_isas(fused=True, integer=True)
    assert all(ratio.time > 0 for ratio in timing.ratios)
    layers = manifest["lowering"]["weights"]["layers"]
    assert {layer["type"] for layer in layers} == {found.chosen.weights}
    assert sum("input" in layer for layer in layers) == (2 if found.chosen.activations == "int8" else 0)

    assert main(["bundle", str(spec), "--in", "host"]) == 0
    again = capsys.readouterr().err
    assert TIMED in said
    assert TIMED not in again
    for output in (said, again):
        assert "".join(f"  {line}\n" for line in found.describe_choice()) in output


def test_times_of_an_earlier_build_decide_as_they_did(
    project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    """To build a bundle again, or to make new weights for it, nothing is timed."""
    spec = write_auto(project, 'place = "layer"\n')
    assert main(["bundle", str(spec), "--in", "host"]) == 0
    assert TIMED in capsys.readouterr().err
    shutil.rmtree(project.build / "digits" / "weights")  # as on a machine that has the bundle alone
    for command in (["reproduce", "dist/digits"], ["weights", str(spec)]):
        assert main(command) == 0
        assert TIMED not in capsys.readouterr().err

    ws = complete_workspace(Workspace.from_spec(read_spec(spec), project, progress=Progress(quiet=True)))

    def measured(time: float) -> PrecisionChoice:
        timing = Timing((Ratio("x86-64-v3", 1, time),))
        return PrecisionChoice(0.99, "", tuple(TriedPrecision(kind, 1.0, timing) for kind in SMALLEST_FIRST))

    assert resolve_spec(ws, measured(1.5)).spec.weights.type == "float32"
    assert not resolve_spec(ws, measured(1.5)).spec.calibrated
    assert resolve_spec(ws, measured(0.5)).spec.weights.type == "int8"
    assert resolve_spec(ws, measured(0.5)).spec.calibrated


def test_accuracy_alone_decides_for_a_processor_that_is_not_here(project: Project, digits: Bundle) -> None:
    there = next(target for target in TARGETS if target != host_target())
    ws = complete_workspace(Workspace.from_spec(read_spec(write_auto(project)), project, there, Progress(quiet=True)))
    found = choose_weight_type(ws)
    assert found.untimed == f"this machine does not run libraries for {there.name}"
    assert [(one.kind, one.timing) for one in found.tried] == [(SMALLEST_FIRST[0], None)]
    assert found.chosen == SMALLEST_FIRST[0]


def test_digits_with_the_images_of_their_training(
    project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranges are measured on samples, and the report has a row for int8 activations, and for samples."""
    with np.load(HELD_OUT) as file:
        np.savez(project.root / "some.npz", images=file["images"][::10])
    spec = write_auto(project)
    spec.write_text(spec.read_text().replace('type = "auto"\naccuracy = 0.99', 'type = "int8"'))
    assert main(["bundle", str(spec), "--in", "host"]) == 0
    said = capsys.readouterr()
    manifest = json.loads(Bundle.load(project.dist / "digits").manifest.read_text())
    assert "auto" not in manifest
    assert TIMED not in said.err
    assert sum("input" in layer for layer in manifest["lowering"]["weights"]["layers"]) == 2
    assert [case for case in manifest["verification"]["cases"] if "sample" in case][-1] == "sample-15"
    assert "the ranges of layers' inputs on held_out.npz" in said.err
    assert main(["accuracy", "digits.toml", "--json", "--images", str(project.root / "some.npz")]) == 0
    report = printed("accuracy", capsys.readouterr().out)
    row = next(row for row in report["types"] if row["activations"] == "int8")
    assert [*row["accuracy"]] == ["the golden inputs", "1,000 images of held_out.npz", "100 images of some.npz"]
    (output,) = row["accuracy"]["1,000 images of held_out.npz"]["outputs"]
    assert output["top1"] >= 0.99
    assert output["right"] > 0.95
