"""Weights of every type: zoo graphs against TensorFlow with the same rounded weights, and whole builds of real models.

Against TensorFlow's own float32 the tolerance is the type's; with the rounded weights in its graph it is the case's.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.arrays import save_arrays
from builder.base.errors import SpecError
from builder.base.project import Project
from builder.cli import main
from builder.compiler.emit import emit_sources
from builder.compiler.link.shared_library import link_library
from builder.compiler.lower import LoweringOptions, lower_graph
from builder.compiler.lower.compress import WeightRules
from builder.compiler.lower.decisions import WeightSizes, list_layer_weights
from builder.compiler.lower.steps.base import walk_steps
from builder.compiler.lower.steps.gather_step import GatherStep
from builder.config import WeightType
from builder.importers.graph import FrozenGraph
from builder.importers.rewrites import REWRITES
from builder.package.bundle import Bundle
from builder.verify.compare_answers import verify_library
from builder.verify.quantise import rounded_reference
from builder.verify.verification import Verification
from tests.conftest import ROOT
from tests.support.build import CACHE, TARGET, compile_here, freeze_function, rounding_of, spec_of, write_golden
from tests.support.models import empty_project
from tests.support.results import printed
from tests.support.zoo import CASES, Case
from tests.support.zoo.case import f32, i32, weights

pytestmark = pytest.mark.integration

TYPES: tuple[WeightType, ...] = ("float16", "bfloat16", "int8")
GRAPHS = ("dense_wide", "mlp_batch_64", "recurrent_wide", "grouped", "embeddings", "wide_resnet", "mobilenet_v2")


def grouped() -> Any:
    """Four groups, the last panel of each half empty: the scales of int8 lie as the panels do."""
    import tensorflow as tf

    kernel = weights(3, 3, 8, 4 * 24)
    return lambda x: tf.nn.conv2d(x, kernel, 1, "SAME")


GROUPED = Case("grouped", grouped, (f32("x", 1, 9, 9, 32),))


def words_in_order() -> Any:
    """Words before a loop, one by one in it, and a table that something else reads as well."""
    import tensorflow as tf

    first, second, shared = (weights(300, 48, seed=seed) for seed in range(3))
    matrix = weights(48, 48)

    def run(tokens: Any) -> Any:
        words = tf.gather(first, tokens)

        def step(i: Any, state: Any) -> Any:
            word = tf.gather(second, tf.gather(tokens, i, axis=1))
            return i + 1, tf.tanh(words[:, i] + word + state @ matrix)

        _, state = tf.while_loop(lambda i, _: i < 12, step, (tf.constant(0), tf.zeros((1, 48))))
        return state + tf.gather(shared, tokens[:, 0]), tf.reduce_min(tf.maximum(state, shared), 0)

    return run


WORDS = Case("words_in_order", words_in_order, (i32("tokens", 1, 12),))


@pytest.fixture(autouse=True)
def _inside_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # tfcompile writes into the current folder


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Case, FrozenGraph]]:
    graphs: dict[str, tuple[Case, FrozenGraph]] = {}

    def compile_case(name: str) -> tuple[Case, FrozenGraph]:
        if name not in graphs:
            case = next(c for c in (*CASES, GROUPED, WORDS) if c.name == name)
            folder = tmp_path_factory.mktemp(name)
            graph = freeze_function(case.trace(), [f.name for f in case.feeds], folder)
            compile_here(graph, folder)
            write_golden(graph, [case.sample(i) for i in range(3)])
            graphs[name] = case, graph
        return graphs[name]

    return compile_case


def build(case: Case, graph: FrozenGraph, rules: WeightRules, folder: Path) -> tuple[Verification, WeightSizes]:
    """Lowered by ``rules``, linked, and verified against both of TensorFlow's answers."""
    spec = spec_of(case.name, case.absolute, case.relative)
    lowered = lower_graph(graph.folder / "graph_metadata.o", graph, CACHE, "optimised", LoweringOptions(weights=rules))
    sources = emit_sources(lowered.program, spec, TARGET, folder)
    library = link_library(sources, [graph.folder / "graph.o"], TARGET, folder, CACHE / "zig")
    rounding = rounding_of(lowered, graph, folder)
    sizes = WeightSizes.from_layers(lowered.program.weights_size, list_layer_weights(lowered.program))
    return verify_library(library.path, graph, spec, rounding=rounding), sizes


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", GRAPHS)
def test_agrees_with_tensorflow_with_the_same_weights(
    name: str, kind: WeightType, compiled: Callable[[str], tuple[Case, FrozenGraph]], tmp_path: Path
) -> None:
    case, graph = compiled(name)
    verification, sizes = build(case, graph, WeightRules(kind), tmp_path)
    assert verification.failures == ()
    assert verification.same_weights
    assert all(row.passed for row in verification.same_weights), verification.same_weights
    # Rounding shows: against float32 the error is larger, or nothing was rounded at all.
    pairs = zip(verification.outputs, verification.same_weights, strict=True)
    assert all(coarse.max_absolute > same.max_absolute for coarse, same in pairs)
    assert sizes.compressed_share > 0.7
    assert sizes.bytes < sizes.as_float32 * {"float16": 0.65, "bfloat16": 0.65, "int8": 0.45}[kind]


def test_rows_of_tables_inside_and_before_a_loop(
    compiled: Callable[[str], tuple[Case, FrozenGraph]], tmp_path: Path
) -> None:
    """A table that something else reads as well stays as it is, and says so."""
    case, graph = compiled("words_in_order")
    verification, sizes = build(case, graph, WeightRules("int8"), tmp_path)
    assert verification.failures == ()
    assert all(row.passed for row in verification.same_weights)
    lowered = lower_graph(
        graph.folder / "graph_metadata.o", graph, CACHE, options=LoweringOptions(weights=WeightRules("int8"))
    )
    tables = {s.layer: (s.weight_type, s.kept) for s in walk_steps(lowered.program.steps) if isinstance(s, GatherStep)}
    assert sorted(tables.values()) == [("float32", "another step reads the same weights"), ("int8", ""), ("int8", "")]
    assert sizes.as_float32 - sizes.bytes > 2 * 3 * 300 * 40


def test_rows_by_numbers_that_are_floats(compiled: Callable[[str], tuple[Case, FrozenGraph]]) -> None:
    """A cast asks whether a float fits into an integer, and does not count as another reader of the indices."""
    _, graph = compiled("embeddings")
    lowered = lower_graph(
        graph.folder / "graph_metadata.o", graph, CACHE, options=LoweringOptions(weights=WeightRules("int8"))
    )
    tables = [step for step in walk_steps(lowered.program.steps) if isinstance(step, GatherStep)]
    assert sorted((step.index, step.weight_type) for step in tables) == [("float32", "int8"), ("int32", "int8")]


def test_indices_that_a_float_decides_are_no_cast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As other frameworks write it, which cast without a bound: from 5.0 on the model takes row 7."""
    import tensorflow as tf

    table = weights(70, 44)
    monkeypatch.delitem(REWRITES, "Cast")
    chosen = tf.function(lambda x: tf.gather(table, tf.where(x < 5.0, tf.cast(x, tf.int32), 7)), autograph=False)
    graph = freeze_function(chosen.get_concrete_function(tf.TensorSpec((1, 12), tf.float32, "x")), ["x"], tmp_path)
    compile_here(graph, tmp_path)
    lowered = lower_graph(
        graph.folder / "graph_metadata.o", graph, CACHE, options=LoweringOptions(weights=WeightRules("int8"))
    )
    assert "float32" not in {step.index for step in walk_steps(lowered.program.steps) if isinstance(step, GatherStep)}


def test_layers_have_exceptions_by_name(compiled: Callable[[str], tuple[Case, FrozenGraph]], tmp_path: Path) -> None:
    case, graph = compiled("wide_resnet")
    metadata = graph.folder / "graph_metadata.o"
    names = [w.layer for w in list_layer_weights(lower_graph(metadata, graph, CACHE, "optimised").program)]
    assert all("/" in name for name in names), names  # the model's own, not XLA's
    rules = WeightRules("int8", ((f"*{names[-1][-12:]}", "float32"), (names[1], "bfloat16")))
    layers = {
        w.layer: w.type
        for w in list_layer_weights(lower_graph(metadata, graph, CACHE, options=LoweringOptions(weights=rules)).program)
    }
    assert layers[names[-1]] == "float32"
    assert layers[names[1]] == "bfloat16"
    assert "int8" in layers.values()
    verification, _ = build(case, graph, rules, tmp_path)
    assert all(row.passed for row in verification.same_weights)
    with pytest.raises(SpecError, match=re.escape(names[1])):
        lower_graph(
            metadata, graph, CACHE, options=LoweringOptions(weights=WeightRules("int8", (("no/such/*", "float32"),)))
        )


def test_weights_that_are_not_in_the_graph_are_said_to_be_unproven(
    compiled: Callable[[str], tuple[Case, FrozenGraph]], tmp_path: Path
) -> None:
    _, graph = compiled("dense_wide")
    save_arrays(tmp_path / "some.npz", {"0" * 64: np.ones((40, 40), np.float32)})
    rounded_reference.make_rounded_answers(graph, tmp_path / "some.npz", tmp_path)
    rounding = rounded_reference.load_rounding(tmp_path, {"int8", "float32"})
    assert (rounding.type, rounding.golden) == ("int8", None)
    assert "not in TensorFlow's graph" in rounding.warning


@pytest.mark.quick
def test_a_wrong_weight_does_not_pass(compiled: Callable[[str], tuple[Case, FrozenGraph]], tmp_path: Path) -> None:
    """The proof is one: with a scale off by a hundredth, TensorFlow with the same weights disagrees."""
    case, graph = compiled("dense_wide")
    spec = spec_of(case.name, case.absolute, case.relative)
    lowered = lower_graph(
        graph.folder / "graph_metadata.o", graph, CACHE, options=LoweringOptions(weights=WeightRules("int8"))
    )
    wrong = {key: array * np.float32(1.01) for key, array in lowered.restored.items()}
    save_arrays(rounded_reference.make_rounded_path(tmp_path), wrong)
    rounded_reference.make_rounded_answers(graph, rounded_reference.make_rounded_path(tmp_path), tmp_path)
    sources = emit_sources(lowered.program, spec, TARGET, tmp_path)
    library = link_library(sources, [graph.folder / "graph.o"], TARGET, tmp_path, CACHE / "zig").path
    verification = verify_library(library, graph, spec, rounding=rounded_reference.load_rounding(tmp_path, {"int8"}))
    assert not verification.passed
    assert not verification.too_coarse


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with nothing built, but for the dependencies layer."""
    return empty_project(tmp_path, monkeypatch)


def write_spec(project: Project, example: str, more: str) -> str:
    """The example's model.toml with ``more`` behind it."""
    text = (ROOT / "examples" / example / "model.toml").read_text(encoding="utf-8")
    text = text.replace('"../../', f'"{ROOT}/')
    path = project.root / f"{example}.toml"
    path.write_text(f"{text}\n{more}\n", encoding="utf-8")
    return str(path)


def manifest_of(project: Project, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Bundle.load(project.dist / name).manifest.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    ("example", "kind"),
    [pytest.param("digits", "int8", marks=pytest.mark.quick), ("emotion", "float16"), ("digits", "bfloat16")],
)
def test_a_bundle_of_a_trained_model(
    example: str, kind: str, project: Project, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    plain: Bundle = request.getfixturevalue(example)
    assert main(["bundle", write_spec(project, example, f'[weights]\ntype = "{kind}"'), "--in", "host"]) == 0
    said = capsys.readouterr()
    assert re.search(rf"weights: [\d,]+ bytes, [\d,]+ as float32; \d+\.\d % of them {kind}", said.out)
    assert ", same weights" in said.out
    manifest = manifest_of(project, example)
    found, before = manifest["lowering"]["weights"], json.loads(plain.manifest.read_text())["lowering"]["weights"]
    assert found["as_float32"] == pytest.approx(before["bytes"], rel=0.02)
    assert found["bytes"] < before["bytes"] * (0.62 if kind == "int8" else 0.75)
    assert {layer["type"] for layer in found["layers"]} <= {kind, "float32"}
    rows = manifest["verification"]["same_weights"]
    assert rows[0]["passed"]
    assert rows[0]["absolute"] == 1e-5


def test_too_coarse_weights_are_said_to_be_that(
    project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from builder.verify import expected_answers

    monkeypatch.setitem(expected_answers.ROUNDING_SHARE, "int8", 0.0)
    assert main(["bundle", write_spec(project, "digits", '[weights]\ntype = "int8"'), "--in", "host"]) == 17
    message = capsys.readouterr().err
    assert "with the same rounded weights TensorFlow agrees" in message
    assert "[[layers]]" in message


ALONE = """
import sys
from builder.cli import main

code = main(sys.argv[1:])
assert "tensorflow" not in sys.modules
sys.exit(code)
"""
"""A command in a process of its own, which leaves TensorFlow to the sandbox."""


@pytest.mark.parametrize("accuracy", [0.99, 1.0])
def test_auto_takes_the_smallest_that_is_accurate_enough(accuracy: float, project: Project, digits: Bundle) -> None:
    """On the held-out digits, of which int8 reads one or two otherwise than float32 does."""
    images = ROOT / "build" / "digits" / "held_out.npz"
    more = f'[weights]\ntype = "auto"\naccuracy = {accuracy}\nimages = "{images}"'
    command = [sys.executable, "-c", ALONE, "-C", str(project.root), "bundle", write_spec(project, "digits", more)]
    done = subprocess.run([*command, "--in", "host"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tried = re.findall(r"(\w+): (\d+\.\d+) % of 1,000 images of held_out\.npz agree with TensorFlow", done.stderr)
    assert [kind for kind, _ in tried] == ["int8", "float16", "bfloat16"][: len(tried)]
    shares = [float(share) for _, share in tried]
    assert all(share < 100 * accuracy for share in shares[:-1])
    assert shares[-1] >= 100 * accuracy
    types = {layer["type"] for layer in manifest_of(project, "digits")["lowering"]["weights"]["layers"]}
    assert types - {"float32"} == {tried[-1][0]}


def test_the_accuracy_of_every_type(project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    """On digits that training left out, with labels; and from a folder by label the same numbers come out."""
    from PIL import Image

    held_out = ROOT / "build" / "digits" / "held_out.npz"
    with np.load(held_out) as file:
        images, labels = file["images"][::20], file["labels"][::20]
    folder = project.root / "by-label"
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0]).save(folder / str(label) / f"{number:04}.png")
    np.savez(project.root / "some.npz", images=images, labels=labels)
    spec = write_spec(project, "digits", "")
    options = [o for path in (held_out, folder, project.root / "some.npz") for o in ("--images", str(path))]
    assert main(["accuracy", spec, "--json", *options]) == 0
    report = printed("accuracy", capsys.readouterr().out)
    whole, by_label, some = (source for source in report["items"] if "golden" not in source)
    types = {row["type"]: row for row in report["types"] if row["activations"] == "float32"}
    (rounded,) = (row for row in report["types"] if row["activations"] == "int8")
    assert rounded["accuracy"][whole]["outputs"][0]["top1"] >= 0.99
    sizes = [types[kind]["library"] for kind in ("float32", "float16", "int8")]
    assert sizes == sorted(sizes, reverse=True)
    for kind, least in (("float32", 1.0), ("float16", 0.995), ("bfloat16", 0.98), ("int8", 0.99)):
        (output,) = types[kind]["accuracy"][whole]["outputs"]
        assert output["top1"] >= least
        assert output["top5"] >= 0.999
        assert output["right"] > 0.95
        assert output["right_tensorflow"] > 0.96
        assert output["mean"] <= output["worst"]
        (one,), (other,) = (types[kind]["accuracy"][source]["outputs"] for source in (by_label, some))
        assert one == other


def test_images_that_do_not_fit_are_refused(
    project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(project, "digits", "")
    (project.root / "empty").mkdir()
    (project.root / "wrong" / "eleven").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "data" / "face.jpg", project.root / "wrong" / "eleven")
    for folder, message in (("nowhere", "no such folder"), ("empty", "has no images"), ("wrong", "is not a label")):
        assert main(["accuracy", spec, "--images", str(project.root / folder)]) == 2
        assert message in capsys.readouterr().err


def test_explain_names_the_layers_and_their_weights(
    project: Project, digits: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(project, "digits", '[weights]\ntype = "float16"')
    assert main(["explain", spec, "--seconds", "0.2"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^\S+ +\S*MatMul +float16 +100,352 +200,704$", said, re.MULTILINE)
    assert re.search(r"% of them compressed\)", said)
