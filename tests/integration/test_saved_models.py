"""SavedModels as people have them: many variables, inputs that nothing reads, and names in their author's order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.importers import describe
from builder.importers.state import assign
from builder.importers.tf import tensorflow
from tests.support import needs
from tests.support.models import freeze, run_graph, spec_for

pytestmark = pytest.mark.integration

tf = tensorflow()
v1 = tf.compat.v1
keras: Any = needs.needs_module("keras")


def save_module(path: Path, function: Any, **shapes: list[int | None]) -> Any:
    """Save a tf.Module whose signature is ``function`` of inputs of ``shapes``, in this order."""
    specs = [tf.TensorSpec(shape, name=name) for name, shape in shapes.items()]
    module = tf.Module()
    module.w = tf.Variable(np.arange(3, dtype="float32"))
    module.f = tf.function(lambda *inputs: function(module.w, *inputs), input_signature=specs, autograph=False)
    tf.saved_model.save(module, str(path), {"serving_default": module.f.get_concrete_function()})
    return module


def save_v1(path: Path, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Save the default graph as TensorFlow 1 did."""
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def(inputs, outputs)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()


def names(ports: Any) -> list[str]:
    return [port.spec.name for port in ports]


def test_variables_are_assigned_in_one_run() -> None:
    """A run on a graph that has grown costs as much as the graph is large."""
    runs = []

    class Counted(v1.Session):  # type: ignore[misc, name-defined]
        def run(self, *arguments: Any, **options: Any) -> Any:
            runs.append(arguments)
            return super().run(*arguments, **options)

    with tf.Graph().as_default() as graph, Counted() as session:
        variables = {f"v{i}": v1.get_variable(f"v{i}", [2], use_resource=i % 2 == 0) for i in range(4)}
        values = {name: np.full(2, i, "float32") for i, name in enumerate(variables)}
        assign(graph, session, values)
        assert len(runs) == 1
        found = session.run(variables)
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value)


class TestInputsThatNothingReads:
    def test_of_a_module(self, tmp_path: Path) -> None:
        module = save_module(tmp_path / "m", lambda w, b, a: {"y": a * w}, b=[None, 3], a=[None, 3])
        graph = freeze(tmp_path / "m", tmp_path / "out", batch=2)
        assert [port.spec.shape for port in graph.feeds] == [(2, 3), (2, 3)]
        a = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
        answer = run_graph(graph, {"a": a, "b": a * np.nan})["y"]
        np.testing.assert_array_equal(answer, module.f(a, a)["y"])

    def test_of_keras(self, tmp_path: Path) -> None:
        read, unread = keras.Input((3,), name="read"), keras.Input((2,), name="unread")
        model = keras.Model([unread, read], keras.layers.Dense(2)(read))
        model.export(tmp_path / "m", verbose=False)
        graph = freeze(tmp_path / "m", tmp_path / "out")
        assert names(graph.feeds) == ["unread", "read"]
        feeds = {"read": np.ones((1, 3), "float32"), "unread": np.ones((1, 2), "float32")}
        (answer,) = run_graph(graph, feeds).values()
        np.testing.assert_allclose(answer, model([feeds["unread"], feeds["read"]]), rtol=1e-5)

    def test_of_tensorflow_1(self, tmp_path: Path) -> None:
        with tf.Graph().as_default():
            x, unread = v1.placeholder("float32", [None, 3], "x"), v1.placeholder("float32", [], "unread")
            w = v1.get_variable("w", [3, 2], initializer=v1.ones_initializer(), use_resource=False)
            save_v1(tmp_path / "m", {"x": x, "unread": tf.identity(unread)}, {"y": x @ w})
        graph = freeze(tmp_path / "m", tmp_path / "out")
        feeds = {"x": np.ones((1, 3), "float32"), "unread": np.float32(7)}
        np.testing.assert_array_equal(run_graph(graph, feeds)["y"], [[3, 3]])


class TestOrder:
    def test_inputs_and_results_of_a_module(self, tmp_path: Path) -> None:
        """More than ten results, whose names sort otherwise as text than as numbers."""
        sizes = range(1, 13)
        save_module(
            tmp_path / "m",
            lambda w, zeta, b, alpha: [tf.tile(zeta + b + alpha, [i]) + w[0] for i in sizes],
            zeta=[1], b=[1], alpha=[1],
        )  # fmt: skip
        graph = freeze(tmp_path / "m", tmp_path / "out")
        assert names(graph.feeds) == ["zeta", "b", "alpha"]
        assert [port.spec.shape for port in graph.fetches] == [(i,) for i in sizes]

    def test_as_keras_has_it(self, tmp_path: Path) -> None:
        """The file and the export of one model agree."""
        inputs = [keras.Input((i,), name=f"x{i}") for i in (10, 9, 2)]
        model = keras.Model(inputs, [keras.layers.Dense(i)(x) for i, x in zip((3, 1, 2), inputs, strict=True)])
        model.export(tmp_path / "m", verbose=False)
        model.save(tmp_path / "m.keras")
        export, file = (freeze(tmp_path / name, tmp_path / f"{name}-out") for name in ("m", "m.keras"))
        assert [p.spec for p in export.feeds] == [p.spec for p in file.feeds]
        assert [p.spec.shape for p in export.fetches] == [p.spec.shape for p in file.fetches]

    def test_names_of_a_signature_without_a_function(self, tmp_path: Path) -> None:
        with tf.Graph().as_default():
            x = [v1.placeholder("float32", [1]) for _ in range(12)]
            v1.get_variable("w", [])
            save_v1(
                tmp_path / "m", {f"in{i}": one for i, one in enumerate(x)}, {f"y_{i}": -one for i, one in enumerate(x)}
            )
        graph = freeze(tmp_path / "m", tmp_path / "out")
        assert names(graph.feeds) == [f"in{i}" for i in range(12)]
        assert names(graph.fetches) == [f"y_{i}" for i in range(12)]


@pytest.mark.parametrize("suffix", ["", ".keras"])
def test_names_that_had_to_be_changed_are_reported(tmp_path: Path, suffix: str) -> None:
    x = keras.Input((2,), name="x")
    model = keras.Model(x, {"Y": keras.layers.Dense(1)(x), "y": keras.layers.Dense(2)(x)})
    path = tmp_path / f"m{suffix}"
    model.save(path) if suffix else model.export(path, verbose=False)
    ports = describe(spec_for(path).source, path)
    assert [port.name for port in ports.fetches] == ["Y", "y_2"]
    (warning,) = ports.warnings
    assert "'y'" in warning
    assert "'y_2'" in warning
    assert freeze(path, tmp_path / "out").warnings == ports.warnings


def test_scales_that_only_known_sizes_decide(tmp_path: Path) -> None:
    """The scale is a quotient of the picture's own sizes, which are there where only the batch is open."""

    def resized(w: Any, x: Any) -> dict[str, Any]:
        size = tf.shape(x)[1:3] // 2
        return {
            "antialias": tf.image.resize(x, (3, 4), antialias=True),
            "half": tf.image.resize(x, size, antialias=True),
            **{kind: tf.image.resize(x, (9, 8), kind) for kind in ("lanczos3", "mitchellcubic")},
        }

    module = save_module(tmp_path / "m", resized, x=[None, 5, 7, 2])
    graph = freeze(tmp_path / "m", tmp_path / "out")
    assert graph.original_path.exists()  # ops were rewritten
    x = np.random.default_rng(0).normal(size=(1, 5, 7, 2)).astype("float32")
    answers = run_graph(graph, {"x": x})
    for name, expected in module.f(x).items():
        np.testing.assert_allclose(answers[name], expected, atol=1e-5)
