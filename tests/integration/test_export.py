"""What `coldforge export` writes, read by others: safetensors, Keras, plain TensorFlow, and coldforge itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from builder.base.errors import UsageError
from builder.base.project import Project
from builder.base.tf import import_tensorflow, reference_session
from builder.cli import main
from builder.config import ImageSpec, ModelSpec, OutputSpec, read_spec
from builder.importers.graph import FrozenGraph
from builder.importers.model_import import import_model
from builder.pipeline.workspace import Workspace
from builder.release.export import export_model, exported_spec
from builder.sources import locate_model
from builder.verify.compare_answers import verify_library
from builder.verify.expected_answers import open_expected
from builder.verify.reference_answers import make_golden_file
from builder.verify.verification import require_passed
from tests.conftest import ROOT
from tests.support.build import build_library
from tests.support.models import save_keras, spec_for

pytestmark = pytest.mark.integration


def exported(spec: ModelSpec, root: Path) -> Path:
    return export_model(Workspace.from_spec(spec, Project(root))).folder


def small_network() -> Any:
    import_tensorflow()
    import keras

    return keras.Sequential(
        [
            keras.Input((12, 12, 3), name="picture"),
            keras.layers.Conv2D(8, 3, activation="relu", name="first"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Flatten(),
            keras.layers.Dense(4, name="scores"),
        ],
        name="small",
    )


def small_spec(path: Path) -> ModelSpec:
    """Everything that is compiled into the graph: BGR, mean, scale, softmax."""
    image = ImageSpec(None, 12, 12, channel_order="bgr", mean=(1.0, 2.0, 3.0), scale=(1 / 127.5,))
    outputs = (OutputSpec("kind", None, "classification", ("a", "b", "c", "d"), "softmax", 2),)
    return spec_for(path, image=image, outputs=outputs)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelSpec, Path]:
    root = tmp_path_factory.mktemp("small")
    spec = small_spec(save_keras(small_network(), root / "small.keras"))
    return spec, exported(spec, root)


def answers(graph_def: Any, graph: FrozenGraph, spec: ModelSpec) -> list[tuple[Any, Any]]:
    """(plain TensorFlow's answers to the golden feeds, the golden answers)."""
    tf = import_tensorflow()
    found = []
    with (
        open_expected(graph, spec) as expected,
        tf.Graph().as_default() as loaded,
        reference_session(loaded) as session,
    ):
        tf.import_graph_def(graph_def, name="")
        for case in expected.cases:
            feeds = dict(zip([p.tensor for p in graph.feeds], expected.feeds_of(case), strict=True))
            ours = session.run([p.tensor for p in graph.fetches], feeds)
            found += list(zip(ours, expected.answers_of(case), strict=True))
    return found


def import_folder(export: Path) -> FrozenGraph:
    """The graph of the project that ``export`` lies in."""
    return FrozenGraph.load(next(export.parents[1].glob("build/*/import")))


def test_weights_have_the_names_of_the_layers(small: tuple[ModelSpec, Path]) -> None:
    found = safetensors.numpy.load_file(small[1] / "weights.safetensors")
    assert {name: found[name].shape for name in found} == {
        "first/kernel": (3, 3, 3, 8), "first/bias": (8,), "norm/gamma": (8,), "norm/beta": (8,),
        "norm/moving_mean": (8,), "norm/moving_variance": (8,), "scores/kernel": (800, 4), "scores/bias": (4,),
    }  # fmt: skip
    assert all(a.dtype == np.float32 for a in found.values())


def test_keras_takes_the_weights(small: tuple[ModelSpec, Path]) -> None:
    """A network of the same layers with other weights gives the trained one's answers once it has these."""
    import keras

    spec, folder = small
    assert spec.source.path is not None
    trained = keras.saving.load_model(spec.source.path, compile=False)
    fresh = small_network()
    pictures = np.random.default_rng(1).normal(size=(5, 12, 12, 3)).astype(np.float32)
    expected = trained.predict(pictures, verbose=0)
    assert not np.allclose(fresh.predict(pictures, verbose=0), expected, atol=0.1)
    run_the_documents_code(fresh, folder)
    np.testing.assert_array_equal(fresh.predict(pictures, verbose=0), expected)


def run_the_documents_code(model: Any, folder: Path) -> None:
    """Load weights as docs/bindings.md says."""
    code = (
        "from safetensors"
        + (ROOT / "docs" / "bindings.md").read_text().split("```python\nfrom safetensors")[1].split("```")[0]
    )
    exec(code.replace("dist/digits-export", str(folder)), {"model": model})


def nested_network() -> Any:
    import_tensorflow()
    import keras

    inner = [keras.Sequential([keras.layers.Dense(3, name="d", activation="tanh")], name=n) for n in ("one", "two")]
    x = keras.Input((3,), name="x")
    return keras.Model(x, keras.layers.LSTM(4, name="rnn")(inner[1](inner[0](x))[:, None]), name="outer")


def test_models_in_models_have_names_of_their_own(tmp_path: Path) -> None:
    import keras

    path = save_keras(nested_network(), tmp_path / "nested.keras")
    folder = exported(spec_for(path), tmp_path)
    assert sorted(safetensors.numpy.load_file(folder / "weights.safetensors")) == [
        "one/d/bias", "one/d/kernel", "rnn/lstm_cell/bias", "rnn/lstm_cell/kernel", "rnn/lstm_cell/recurrent_kernel",
        "two/d/bias", "two/d/kernel",
    ]  # fmt: skip
    fresh, x = nested_network(), np.ones((2, 3), np.float32)
    expected = keras.saving.load_model(path).predict(x, verbose=0)
    run_the_documents_code(fresh, folder)
    np.testing.assert_array_equal(fresh.predict(x, verbose=0), expected)


def test_the_graph_loads_in_plain_tensorflow_with_weights_from_the_file(small: tuple[ModelSpec, Path]) -> None:
    """Every weight zeroed in graph.pb, then filled from the file by the manifest's names: the same bits."""
    tf = import_tensorflow()
    spec, folder = small
    graph_def = tf.compat.v1.GraphDef.FromString((folder / "graph.pb").read_bytes())
    graph = import_folder(folder)
    rows = json.loads((folder / "manifest.json").read_text())["weights"]
    weights = safetensors.numpy.load_file(folder / "weights.safetensors")
    nodes = {n.name: n for n in graph_def.node}
    for row in rows:
        nodes[row["node"]].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.zeros(row["shape"], row["dtype"])))
    assert any(not np.allclose(ours, theirs) for ours, theirs in answers(graph_def, graph, spec))
    for row in rows:
        nodes[row["node"]].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(weights[row["name"]]))
    for ours, theirs in answers(graph_def, graph, spec):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.quick
def test_coldforge_builds_what_it_exported(small: tuple[ModelSpec, Path], tmp_path: Path) -> None:
    """The exported model.toml gives the library that the model itself gives, to the byte."""
    spec, folder = small
    again = read_spec(folder / "model.toml")
    assert again.outputs[0].labels == ("a", "b", "c", "d")
    assert (again.name, again.batch, again.tolerance) == (spec.name, spec.batch, spec.tolerance)
    before = import_folder(folder)
    graph = import_model(again, locate_model(again, tmp_path), tmp_path / "import")
    assert [p.spec for p in graph.feeds] == [p.spec for p in before.feeds]
    assert [p.spec for p in graph.fetches] == [p.spec for p in before.fetches]
    graph.golden_path.write_bytes(before.golden_path.read_bytes())
    library = build_library(graph, again, tmp_path / "import").path
    require_passed(verify_library(library, graph, again))
    shutil.copytree(before.folder, tmp_path / "before")
    original = build_library(FrozenGraph.load(tmp_path / "before"), spec, tmp_path / "before").path
    assert library.read_bytes() == original.read_bytes()
    # And exporting the export loses nothing.
    make_golden_file(again, graph)
    twice = exported(again, tmp_path)
    assert (twice / "weights.safetensors").stat().st_size > 0
    first, second = (safetensors.numpy.load_file(f / "weights.safetensors") for f in (folder, twice))
    # A frozen graph says no more which constants were variables, so it names them by their nodes.
    assert {a.tobytes() for a in first.values()} <= {a.tobytes() for a in second.values()}


def test_a_saved_models_variables_are_named(tmp_path: Path) -> None:
    tf = import_tensorflow()

    class Line(tf.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.slope = tf.Variable([[2.0, 3.0]], name="line/slope")
            self.shift = tf.Variable([0.5, 1.5], name="line/shift")

        @tf.function(input_signature=[tf.TensorSpec([1, 1], tf.float32, "x")])
        def __call__(self, x: Any) -> Any:
            return {"y": x @ self.slope + self.shift}

    line = Line()
    tf.saved_model.save(line, str(tmp_path / "line"), signatures=line.__call__)
    folder = exported(spec_for(tmp_path / "line"), tmp_path)
    found = safetensors.numpy.load_file(folder / "weights.safetensors")
    np.testing.assert_array_equal(found["line/slope"], [[2.0, 3.0]])
    np.testing.assert_array_equal(found["line/shift"], [0.5, 1.5])


def test_ports_that_c_would_not_allow_keep_their_fetches_names(tmp_path: Path) -> None:
    import_tensorflow()
    import keras

    x = keras.Input((3,), name="the-input")
    model = keras.Model(x, keras.layers.Dense(2, name="the-output")(x))
    spec = spec_for(save_keras(model, tmp_path / "odd.keras"))
    again = read_spec(exported(spec, tmp_path) / "model.toml")
    graph = import_model(again, locate_model(again, tmp_path), tmp_path / "import")
    assert [p.spec.name for p in graph.fetches] == ["the-output"]
    assert [p.spec.name for p in graph.feeds] == ["the_input"]


def test_a_folder_of_the_users_is_not_written_over(small: tuple[ModelSpec, Path], tmp_path: Path) -> None:
    spec, folder = small
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists and is not an export"):
        export_model(Workspace.from_spec(spec, Project(folder.parents[1])), tmp_path / "precious")
    for _ in range(2):  # its own it may
        export_model(Workspace.from_spec(spec, Project(folder.parents[1])), tmp_path / "out")
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "mine"


def test_the_spec_says_no_more_what_the_graph_does(small: tuple[ModelSpec, Path]) -> None:
    spec, folder = small
    made = exported_spec(spec, import_folder(folder), folder)
    assert made.image is not None
    assert (made.image.channel_order, made.image.mean, made.image.scale) == ("rgb", (0.0,), (1.0,))
    assert made.outputs[0].activation == "none"
    assert read_spec(folder / "model.toml") == made


@pytest.mark.usefixtures("digits")
def test_the_command_on_digits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert (ROOT / "build" / "digits" / "model.keras").exists(), "make bundle MODEL=digits makes it"
    assert main(["export", "digits", "--out", str(tmp_path / "digits")]) == 0
    assert "4 tensors, 101,770 parameters" in capsys.readouterr().out
