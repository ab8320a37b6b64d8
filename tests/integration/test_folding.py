"""What TensorFlow computes of constants when a model is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow, reference_session
from builder.importers.folding import LARGEST, fold_constants
from builder.importers.rewrite import all_nodes

pytestmark = pytest.mark.integration

VALUES = np.linspace(0.1, 3.0, 50, dtype="float32")


def folded(build: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """A graph of ``build(tf, x)``, x float32 [50], as it is and folded."""
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [50], name="x")
        tf.identity(build(tf, x), name="y")
        definition = graph.as_graph_def()
    return definition, fold_constants(definition, ["y:0"], ["x:0"])


def answer(definition: Any) -> Any:
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        with reference_session(graph) as session:
            return session.run("y:0", {"x:0": VALUES})


def ops(definition: Any) -> set[str]:
    return {node.op for node in all_nodes(definition)}


def in_a_loop(tf: Any, x: Any) -> Any:
    def step(number: Any, value: Any) -> tuple[Any, Any]:
        return number + 1, value * tf.cos(tf.constant(VALUES))

    return tf.while_loop(lambda number, _: number < 3, step, (0, x))[1]


@pytest.mark.parametrize(
    ("build", "op"),
    [
        (lambda tf, x: x * (tf.math.log(tf.constant(VALUES) * 2.0) - 1.0), "Log"),
        (lambda tf, x: x + tf.reduce_sum(tf.exp(tf.constant(VALUES))), "Exp"),
        (in_a_loop, "Cos"),
    ],
)
def test_what_depends_on_constants_alone_becomes_one(build: Callable[[Any, Any], Any], op: str) -> None:
    definition, found = folded(build)
    assert op in ops(definition)
    assert op not in ops(found)
    np.testing.assert_array_equal(answer(found), answer(definition))


@pytest.mark.parametrize(
    "build",
    [
        lambda tf, x: tf.math.log(x),
        lambda tf, x: x * tf.sqrt(tf.constant(VALUES)),  # XLA gives it the same bits
        lambda tf, x: x * tf.math.log(tf.fill([50, LARGEST], tf.constant(3.0)))[:, 0],
        lambda tf, x: x * tf.exp(tf.random.stateless_uniform([50], [1, 2])),
        lambda tf, x: x * tf.exp(tf.random.uniform([50])),
    ],
    ids=["fed", "exact", "large", "random", "stateful"],
)
def test_anything_else_stays(build: Callable[[Any, Any], Any]) -> None:
    definition, found = folded(build)
    assert found.node == definition.node


def test_nothing_is_computed_past_a_feed() -> None:
    """A feed may stand where the graph has a constant."""
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        tf.exp(tf.constant(VALUES, name="c"), name="y")
        definition = graph.as_graph_def()
    assert fold_constants(definition, ["y:0"], ["c:0"]).node == definition.node
    assert ops(fold_constants(definition, ["y:0"], [])) == {"Const"}
