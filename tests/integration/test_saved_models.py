"""SavedModels as people have them: many variables, inputs that nothing reads, and names in their author's order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError, VerifyError
from builder.base.tf import import_tensorflow
from builder.config import FeedSpec, FetchSpec
from builder.importers.draft import draft_spec
from builder.importers.graph import FrozenGraph
from builder.importers.model_description import describe_model
from builder.importers.variables_state import assign_variables
from builder.verify.reference_answers import find_random_nodes, make_golden_file
from tests.support import needs
from tests.support.models import freeze, run_graph, spec_for

pytestmark = pytest.mark.integration

tf = import_tensorflow()
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
        assign_variables(graph, session, values)
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
    ports = describe_model(spec_for(path).source, path)
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


def dropout_of_then(x: Any, keep_prob: Any) -> Any:
    """Dropout as TensorFlow 1 wrote it until 1.12."""
    drawn = tf.random.uniform(tf.shape(x), dtype=x.dtype)
    return x / keep_prob * tf.floor(keep_prob + drawn)


def save_training_graph(path: Path, keep: Any, training: Any) -> Callable[[Any], Any]:
    """Save a frozen graph with dropout of every kind; returns TensorFlow's own answers, with nothing dropped.

    ``keep``, ``training``: make the tensors of these names.
    """
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder("float32", [None, 4], "x")
            keep_prob, is_training = keep(), training()
            y = v1.nn.dropout(dropout_of_then(x, keep_prob) + 1, keep_prob=keep_prob)
            y = v1.nn.dropout(y * 2, rate=1 - keep_prob)
            y = v1.cond(is_training, lambda: v1.nn.dropout(y, keep_prob=0.5), lambda: y * 3)
            slope = v1.cond(y[0, 0] > 0, lambda: 2.0, lambda: 0.5)  # another branch, which the data chooses
            tf.add(v1.cond(tf.logical_not(is_training), lambda: y * slope, lambda: -y), 0.0, name="y")
    finally:
        v1.enable_control_flow_v2()
    path.write_bytes(graph.as_graph_def().SerializeToString())
    flags = {keep_prob: 1.0, is_training: False}

    def answer(feed: Any) -> Any:
        with v1.Session(graph=graph) as session:
            return session.run("y:0", {x: feed, **flags})

    return answer


def fed() -> tuple[Callable[[], Any], Callable[[], Any]]:
    return lambda: v1.placeholder("float32", name="keep_prob"), lambda: v1.placeholder("bool", name="is_training")


def with_defaults() -> tuple[Callable[[], Any], Callable[[], Any]]:
    make = v1.placeholder_with_default
    return lambda: make(1.0, [], "keep_prob"), lambda: make(False, [], "is_training")


CONSTANT = (FeedSpec("keep_prob", value=(1,)), FeedSpec("is_training", value=(False,)))


@pytest.mark.parametrize(("inputs", "feeds"), [(fed(), CONSTANT), (with_defaults(), ())])
def test_a_graph_for_training_draws_nothing_where_nothing_is_dropped(
    inputs: Any, feeds: tuple[FeedSpec, ...], tmp_path: Path
) -> None:
    answer = save_training_graph(tmp_path / "m.pb", *inputs)
    feeds = (FeedSpec("x", (2, 4)), *feeds)
    graph = freeze(tmp_path / "m.pb", tmp_path / "out", feeds=feeds, fetches=(FetchSpec("y"),))
    assert names(graph.feeds) == ["x"]
    assert not find_random_nodes(graph.read_definition())
    ports = describe_model(spec_for(tmp_path / "m.pb").source, tmp_path / "m.pb")
    assert [port.name for port in ports.fetches] == ["y"]
    for x in np.random.default_rng(0).normal(size=(4, 2, 4)).astype("float32"):
        np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], answer(x))


def test_inputs_that_tell_training_from_inference_are_found(tmp_path: Path) -> None:
    """By what they do, whatever they are called; what else a scalar may be is left alone."""
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            x, gain, a, b = (v1.placeholder("float32", shape) for shape in ([None, 4], [], [], None))
            flag, limit = v1.placeholder("bool", []), v1.placeholder("float32", [])
            y = v1.nn.dropout(dropout_of_then(x * gain, a), rate=b)
            y = v1.cond(flag, lambda: v1.nn.dropout(y, rate=0.5), lambda: y)
            y = v1.cond(limit > 0, lambda: y, lambda: -y)
            v1.get_variable("w", [])
            inputs = {"x": x, "gain": gain, "a": a, "b": b, "flag": flag, "limit": limit}
            save_v1(tmp_path / "m", inputs, {"y": y})
    finally:
        v1.enable_control_flow_v2()
    source = spec_for(tmp_path / "m").source
    found = {port.name: port.value for port in describe_model(source, tmp_path / "m").feeds}
    assert found == {"x": None, "gain": None, "a": 1.0, "b": 0.0, "flag": False, "limit": None}
    spec = draft_spec(tmp_path / "m", describe_model).spec
    constants = {feed.name: feed.value for feed in spec.feeds}
    assert constants == {"a": (1.0,), "b": (0.0,), "flag": (False,)}
    graph = freeze(tmp_path / "m", tmp_path / "out", feeds=spec.feeds)
    assert names(graph.feeds) == ["gain", "limit", "x"]
    # Without them, the refusal names them.
    fed = freeze(tmp_path / "m", tmp_path / "fed", feeds=(FeedSpec("b", ()),))
    with pytest.raises(VerifyError) as error:
        make_golden_file(spec_for(tmp_path / "m"), fed)
    for name, value in (("a", "1.0"), ("b", "0.0"), ("flag", "false")):
        assert f'[[feeds]]\nname = "{name}"\nvalue = {value}\n' in str(error.value)


@pytest.mark.parametrize(
    "feed", [FeedSpec("n", value=(1.5,)), FeedSpec("n", value=(1, 2, 3)), FeedSpec("m", value=(1,))]
)
def test_a_value_that_an_input_cannot_have(tmp_path: Path, feed: FeedSpec) -> None:
    with tf.Graph().as_default() as graph:
        n, x = v1.placeholder("int32", [2], "n"), v1.placeholder("int32", [2], "x")
        tf.add(n, x, name="y")
        (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    feeds = (FeedSpec("x"), FeedSpec("n"), feed) if feed.name == "m" else (FeedSpec("x"), feed)
    with pytest.raises(ImportModelError, match=feed.name):
        freeze(tmp_path / "g.pb", tmp_path / "out", feeds=feeds, fetches=(FetchSpec("y"),))
    given = (FeedSpec("x"), FeedSpec("n", value=(3, -4)))
    frozen = freeze(tmp_path / "g.pb", tmp_path / "out", feeds=given, fetches=(FetchSpec("y"),))
    np.testing.assert_array_equal(run_graph(frozen, {"x": np.array([1, 1], "int32")})["y"], [4, -3])


def test_an_if_with_outputs_for_a_gradient(tmp_path: Path) -> None:
    """TensorFlow adds Optionals to the outputs of a branch whose gradient was taken; no answer reads them."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder("float32", [None, 4], "x")
        y = tf.cond(x[0, 0] > 0, lambda: tf.exp(tf.sin(x * 2)) * 3, lambda: tf.sin(x))
        tf.gradients(tf.identity(y, name="y"), x)
        (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    assert b"OptionalFromValue" in (tmp_path / "g.pb").read_bytes()
    frozen = freeze(tmp_path / "g.pb", tmp_path / "out", feeds=(FeedSpec("x", (1, 4)),), fetches=(FetchSpec("y"),))
    with v1.Session(graph=graph) as session:
        for x in (np.ones((1, 4), "float32"), -np.ones((1, 4), "float32")):
            np.testing.assert_array_equal(run_graph(frozen, {"x": x})["y"], session.run("y:0", {"x:0": x}))


def test_a_branch_that_a_rank_chooses(tmp_path: Path) -> None:
    """keras.ops.inner multiplies scalars otherwise than vectors; the size of its answer is known."""
    x, w = keras.Input((4,), name="x"), keras.Input((4,), name="w")
    model = keras.Model([x, w], keras.ops.inner(x, w))
    model.export(tmp_path / "m", verbose=False)
    graph = freeze(tmp_path / "m", tmp_path / "out")
    assert [port.spec.dynamic for port in graph.fetches] == [()]
    assert not any("If" in node.op for node in graph.read_definition().node)
    feeds = {name: np.random.default_rng(i).normal(size=(1, 4)).astype("float32") for i, name in enumerate("xw")}
    (answer,) = run_graph(graph, feeds).values()
    np.testing.assert_allclose(answer, model([feeds["x"], feeds["w"]]), rtol=1e-5)


def test_a_batch_that_the_model_fixes_is_reported(tmp_path: Path) -> None:
    save_module(tmp_path / "m", lambda w, x: {"y": x * w}, x=[2, 3])
    assert not freeze(tmp_path / "m", tmp_path / "two", batch=2).warnings
    graph = freeze(tmp_path / "m", tmp_path / "one", batch=1)
    assert graph.feeds[0].spec.shape == (2, 3)
    (warning,) = FrozenGraph.load(graph.folder).warnings
    assert "`batch = 1`" in warning
