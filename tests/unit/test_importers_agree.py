"""Import each computation of a table from each format of TensorFlow, and compare with TensorFlow's own answers.

The answers are those of the function itself, called eagerly before it was saved. The feeds hold ordinary numbers, and
those at the ends of their types: an importer that folds, reorders or drops something is wrong there first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow
from builder.config import FeedSpec, FetchSpec
from tests.support.models import freeze, run_graph

tf = import_tensorflow()
v1 = tf.compat.v1

F, I, L, B = "float32", "int32", "int64", "bool"  # noqa: E741
W = np.arange(12, dtype=F).reshape(3, 4) - 5


@dataclass(frozen=True)
class Case:
    """A computation with the variable ``w`` [3, 4], and its feeds: dtype and shape of each argument but the first."""

    function: Callable[..., dict[str, Any]]
    feeds: dict[str, tuple[str, tuple[int, ...]]]


def while_of_a_count(w: Any, x: Any, count: Any) -> dict[str, Any]:
    n, y = tf.while_loop(
        lambda i, _: i < tf.minimum(count, 5), lambda i, y: (i + 1, tf.tanh(y @ w @ tf.transpose(w))), (0, x)
    )
    return {"n": n, "y": y}


def while_in_cond(w: Any, x: Any, more: Any) -> dict[str, Any]:
    def loop() -> Any:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 100, lambda y: (y + tf.abs(w[0]) + 1,), (x,))[0]

    return {"y": tf.cond(more, loop, lambda: x - w[1])}


def steps_of_a_list(w: Any, x: Any) -> dict[str, Any]:
    """Write into a list of tensors, and stack it."""
    steps = tf.TensorArray(F, 4, clear_after_read=False)
    for i in range(4):
        steps = steps.write(i, x[:, i] * w[0, i])
    return {"y": steps.stack(), "last": steps.read(3)}


@tf.custom_gradient  # type: ignore[untyped-decorator]
def with_gradient(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    return tf.nn.softplus(x), lambda upstream: upstream


CASES = {
    "variable": Case(lambda w, x: {"y": x @ w, "w": w + 0}, {"x": (F, (2, 3))}),
    "no_variable": Case(lambda _, x: {"y": tf.nn.softmax(x)}, {"x": (F, (2, 4))}),
    "feed_is_fetch": Case(lambda w, x, unused: {"same": tf.identity(x), "w": w[0] * 1}, {"x": (I, (3,)), "z": (F, ())}),
    "scalars": Case(lambda w, x, i: {"y": w[i % 3] * x, "i": i + 1}, {"x": (F, ()), "i": (I, ())}),
    "integers": Case(
        lambda _, a, b: {"sum": a + b, "quotient": a // (b | 1), "rest": a % (b | 1), "bits": a ^ b, "less": a < b},
        {"a": (L, (6,)), "b": (L, (6,))},
    ),
    "booleans": Case(
        lambda _, a, b: {"and": a & b, "any": tf.reduce_any(a), "where": tf.where(a, 1, tf.cast(b, I) + 2)},
        {"a": (B, (2, 3)), "b": (B, (2, 3))},
    ),
    "casts": Case(
        lambda _, x: {"d": tf.cast(x, "float64") / 3, "b": tf.cast(x, B), "h": tf.cast(tf.cast(x, "float16"), F)},
        {"x": (F, (8,))},
    ),
    "doubles": Case(lambda w, x: {"y": tf.linalg.matvec(tf.cast(w, "float64"), x)}, {"x": ("float64", (4,))}),
    "bytes": Case(lambda _, x: {"y": x[::-1] // 2, "f": tf.cast(x, F) / 255}, {"x": ("uint8", (2, 5))}),
    "while": Case(while_of_a_count, {"x": (F, (2, 3)), "count": (I, ())}),
    "while_in_cond": Case(while_in_cond, {"x": (F, (4,)), "more": (B, ())}),
    "switch": Case(
        lambda w, x, i: {"y": tf.switch_case(i, [lambda: x + w[0], lambda: x * w[1], lambda: x - w[2]])},
        {"x": (F, (4,)), "i": (I, ())},
    ),
    "map": Case(lambda w, x: {"y": tf.map_fn(lambda row: tf.reduce_max(row * w[0]), x)}, {"x": (F, (3, 4))}),
    "scan": Case(lambda w, x: {"y": tf.scan(lambda s, row: s * 0.5 + row, x, w[0])}, {"x": (F, (3, 4))}),
    "list": Case(steps_of_a_list, {"x": (F, (2, 4))}),
    "checked": Case(
        lambda w, x: {"y": tf.debugging.assert_all_finite(w, "w") @ tf.transpose(tf.debugging.check_numerics(x, "x"))},
        {"x": ("float32", (2, 4))},
    ),
    "gradient": Case(lambda w, x: {"y": tf.stop_gradient(with_gradient(x)) + w[0]}, {"x": (F, (2, 4))}),
    "chosen_rows": Case(lambda w, i: {"y": tf.gather(w, i % 3), "hot": tf.one_hot(i % 4, 4)}, {"i": (I, (5,))}),
    "order": Case(lambda _, x: {"v": tf.math.top_k(x, 2)[0], "i": tf.argsort(x, stable=True)}, {"x": (F, (3, 6))}),
    "sizes": Case(lambda w, x: {"y": tf.reshape(x, [-1, tf.shape(w)[1]]), "n": tf.size(x)}, {"x": (F, (2, 6))}),
}
FINITE = {"checked", "order", "while_in_cond"}
"""Cases that check their feeds, that order them, and that loop until a sum is reached."""


def feeds_of(name: str) -> Iterator[dict[str, np.ndarray]]:
    """Yield feeds: zeros, three of random numbers, and the ends of the types."""
    random = np.random.default_rng(5)
    case = CASES[name]
    yield {feed: np.zeros(shape, dtype) for feed, (dtype, shape) in case.feeds.items()}
    for _ in range(3):
        yield {
            feed: random.normal(0, 3, shape).astype(dtype)
            if np.issubdtype(dtype, np.floating)
            else random.integers(0, 2 if dtype == B else 9, shape).astype(dtype)
            for feed, (dtype, shape) in case.feeds.items()
        }
    if name not in FINITE:
        yield {feed: np.resize(ends_of(dtype), shape).astype(dtype) for feed, (dtype, shape) in case.feeds.items()}


def ends_of(dtype: str) -> list[Any]:
    if dtype == B:
        return [True, False]
    if np.issubdtype(dtype, np.floating):
        return [np.inf, -np.inf, np.nan, -0.0, 1e-45, 65520.0, -3e38, 2.5]
    # Zero and one first: scalars choose a branch or count.
    return [1, np.iinfo(dtype).max, np.iinfo(dtype).min, 0, 255]


class Model(tf.Module):  # type: ignore[misc]
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.w = tf.Variable(W)
        specs = [tf.TensorSpec(shape, dtype, name=name) for name, (dtype, shape) in case.feeds.items()]
        self.call = tf.function(lambda *feeds: case.function(self.w, *feeds), input_signature=specs, autograph=False)


def save_module(case: Case, folder: Path) -> tuple[Path, dict[str, Any]]:
    model = Model(case)
    tf.saved_model.save(model, str(folder / "model"), {"serving_default": model.call.get_concrete_function()})
    return folder / "model", {}


def save_frozen(case: Case, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Freeze as TensorFlow's own converter does, with control flow in functions."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    function = Model(case).call.get_concrete_function()
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    return write_graph(frozen.graph.as_graph_def(), case, sorted(function.structured_outputs), frozen.outputs, folder)


def save_session(case: Case, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Save as TensorFlow 1 did, with its loops of Enter and Exit nodes, and a variable without a handle."""
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            inputs = {name: v1.placeholder(dtype, shape, name) for name, (dtype, shape) in case.feeds.items()}
            w = v1.get_variable("w", initializer=W, use_resource=False)
            outputs = case.function(w, *inputs.values())
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(str(folder / "model"))
            signature = v1.saved_model.predict_signature_def(inputs, outputs)
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            builder.save()
    finally:
        v1.enable_control_flow_v2()
    return folder / "model", {}


def write_graph(
    graph_def: Any, case: Case, names: list[str], outputs: Any, folder: Path
) -> tuple[Path, dict[str, Any]]:
    (folder / "model.pb").write_bytes(graph_def.SerializeToString())
    fetches = tuple(
        FetchSpec(tensor.name.removesuffix(":0"), name) for name, tensor in zip(names, outputs, strict=True)
    )
    return folder / "model.pb", {"feeds": tuple(FeedSpec(name) for name in case.feeds), "fetches": fetches}


WAYS = (save_module, save_frozen, save_session)
LOWERED = ("switch", save_frozen)
"""TensorFlow's converter makes _SwitchN of it, which XLA lacks: such a graph is refused by name."""


@pytest.mark.parametrize(("name", "save"), [way for way in itertools.product(CASES, WAYS) if way != LOWERED])
def test_answers_as_tensorflow(name: str, save: Callable[[Case, Path], Any], tmp_path: Path) -> None:
    case = CASES[name]
    path, options = save(case, tmp_path)
    graph = freeze(path, tmp_path / "out", **options)
    w = tf.constant(W)
    for feeds in feeds_of(name):
        expected = case.function(w, *map(tf.constant, feeds.values()))
        found = run_graph(graph, feeds)
        assert set(found) == set(expected)
        for fetch, answer in expected.items():
            np.testing.assert_allclose(found[fetch], answer.numpy(), rtol=1e-6, atol=1e-6, err_msg=fetch)
            assert found[fetch].dtype == answer.numpy().dtype


def write(state: Any, value: Any) -> Any:
    return state.assign(value, read_value=False)


STATES: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "read alone": (lambda s, x: x + s, 0),
    "written and never read": (lambda s, x: after(write(s, x), x * 2), 0),
    "read and then written": (lambda s, x: x + s.assign_add(x), 1),
    "written before it is read": (lambda s, x: after(write(s, x), s + 0), 1),
    "written in a branch": (lambda s, x: x + tf.cond(x[0] > 0, lambda: s.assign_add(x), lambda: s + 0), 1),
    "written in a loop": (
        lambda s, x: tf.while_loop(lambda i, _: i < 3, lambda i, _: (i + 1, s.assign_add(x)), (0, x))[1],
        1,
    ),
}


def after(operation: Any, value: Any) -> Any:
    with tf.control_dependencies([operation]):
        return tf.identity(value)


@pytest.mark.parametrize("name", STATES)
def test_a_variable_is_state_where_an_answer_depends_on_what_was_written(name: str, tmp_path: Path) -> None:
    function, count = STATES[name]
    module = tf.Module()
    module.state = tf.Variable([1.0, 2.0])
    module.call = tf.function(
        lambda x: {"y": function(module.state, x)}, input_signature=[tf.TensorSpec([2], F, name="x")], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path / "model"), {"serving_default": module.call.get_concrete_function()})
    assert len(freeze(tmp_path / "model", tmp_path / "out").states) == count
