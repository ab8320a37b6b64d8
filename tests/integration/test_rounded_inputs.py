"""Roundings put into TensorFlow's graph, against the same in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow, reference_session
from builder.compiler.lower.compress import RoundedInput, digest_constant
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.verify.quantise.rounded_reference import replace_constants, round_inputs
from tests.support.quantise import from_bytes, to_bytes

pytestmark = pytest.mark.integration

BY, OTHER = Quantisation(0.1, 100), Quantisation(0.25, 0)
RANDOM = np.random.default_rng(0)
W = RANDOM.normal(size=(8, 6)).astype(np.float32)
K = RANDOM.normal(size=(3, 3, 2, 4)).astype(np.float32)
X = RANDOM.normal(size=(5, 8)).astype(np.float32) * 10


def graph_of(function: Callable[..., Any], *feeds: np.ndarray) -> Any:
    """As it is written, functions that are called included."""
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph:
        places = [tf.compat.v1.placeholder(tf.float32, f.shape, name=f"x{i}") for i, f in enumerate(feeds)]
        tf.identity(function(*places), name="y")
    return graph.as_graph_def()


def rounded(definition: Any, inputs: list[RoundedInput], *arrays: np.ndarray) -> list[str]:
    """Round ``inputs`` of layers that read ``arrays``, which stay as they are; what could not be."""
    return round_inputs(replace_constants(definition, {digest_constant(a): a for a in arrays}), inputs)


def run(definition: Any, *feeds: np.ndarray) -> np.ndarray:
    tf = import_tensorflow()
    with tf.Graph().as_default() as graph, reference_session(graph) as session:
        tf.import_graph_def(definition, name="")
        found: np.ndarray = session.run("y:0", {f"x{i}:0": feed for i, feed in enumerate(feeds)})
    return found


def as_bytes(values: np.ndarray, by: Quantisation) -> np.ndarray:
    return from_bytes(to_bytes(values, by), by)


def one(layer: str, by: Quantisation | None, array: np.ndarray = W) -> RoundedInput:
    return RoundedInput(digest_constant(array), layer, by)


def test_a_product_reads_rounded_numbers() -> None:
    tf = import_tensorflow()
    definition = graph_of(lambda x: tf.linalg.matmul(x, tf.identity(tf.constant(W))) + 1.0, X)
    halves = np.round(X * 2) / 20 + 0.05  # half a step: they go to the even one
    assert rounded(definition, [one("whatever", BY)], W) == []
    for values in (X, halves.astype(np.float32)):
        np.testing.assert_allclose(run(definition, values), as_bytes(values, BY) @ W + 1, rtol=1e-5, atol=1e-5)
    assert np.abs(run(definition, X) - (X @ W + 1)).max() > 0.1


def test_a_transposed_constant_and_a_convolution_inside_a_function() -> None:
    tf = import_tensorflow()

    @tf.function(autograph=False)
    def inner(y: Any) -> Any:
        return tf.nn.conv2d(y, tf.reshape(tf.constant(K.reshape(-1)), K.shape), 1, "SAME")

    image = RANDOM.normal(size=(1, 5, 5, 2)).astype(np.float32)
    definition = graph_of(inner, image)
    assert definition.library.function
    before = run(definition, image)
    np.testing.assert_allclose(before, tf.nn.conv2d(image, K, 1, "SAME").numpy(), atol=1e-5)
    assert rounded(definition, [one("conv", BY, K)], K) == []
    expected = tf.nn.conv2d(as_bytes(image, BY), K, 1, "SAME").numpy()
    np.testing.assert_allclose(run(definition, image), expected, rtol=1e-5, atol=1e-5)


def test_equal_weights_are_told_apart_by_their_layers_names() -> None:
    tf = import_tensorflow()

    def two(a: Any, b: Any, c: Any) -> Any:
        products = [
            tf.linalg.matmul(x, tf.constant(W), name=name) for x, name in ((a, "one"), (b, "other"), (c, "float"))
        ]
        return sum(products)

    feeds = X, X + 1, X + 2
    definition = graph_of(two, *feeds)
    assert rounded(definition, [one("one", BY), one("other", OTHER), one("float", None)], W) == []
    expected = as_bytes(feeds[0], BY) @ W + as_bytes(feeds[1], OTHER) @ W + feeds[2] @ W
    np.testing.assert_allclose(run(definition, *feeds), expected, rtol=1e-4, atol=1e-3)
    again = graph_of(two, *feeds)
    assert rounded(again, [one("one", BY), one("not here", OTHER)], W) == ["one", "not here"]


def test_what_is_read_in_another_way_is_said_to_be_missing() -> None:
    tf = import_tensorflow()
    definition = graph_of(lambda x: tf.linalg.matmul(x, tf.constant(W) * 2.0), X)
    assert rounded(definition, [one("product", BY)], W) == ["product"]
    assert rounded(graph_of(lambda x: x + 1.0, X), [one("product", BY)], W) == ["product"]
    definition = graph_of(lambda x: tf.linalg.matmul(x, tf.constant(W)), X)
    before = definition.SerializeToString(deterministic=True)
    assert rounded(definition, [one("product", None)], W) == []
    assert definition.SerializeToString(deterministic=True) == before
