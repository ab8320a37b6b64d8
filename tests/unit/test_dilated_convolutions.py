"""Batches of phases, by which TensorFlow writes dilated convolutions, as dilations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.base.tf import tf
from builder.importers.dilated_convolutions import join_dilated_convolutions

RNG = np.random.default_rng(0)


def rewrite(run: Callable[[Any], Any], shape: tuple[int, ...]) -> tuple[Counter[str], list[Any]]:
    """Return how often each op is in what becomes of ``run``, and the answers before and after."""
    with tf.Graph().as_default() as graph:
        tf.identity(run(tf.compat.v1.placeholder(tf.float32, shape, name="x")), name="y")
    before = graph.as_graph_def()
    after = join_dilated_convolutions(before, ["y:0", "x:0"])
    image, answers = RNG.standard_normal(shape, np.float32), []
    for definition in (before, after):
        with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
            tf.import_graph_def(definition, name="")
            answers.append(session.run("y:0", {"x:0": image}))
    return Counter(node.op for node in after.node), answers


@given(
    height=st.integers(7, 20),
    width=st.integers(7, 20),
    rates=st.tuples(st.integers(1, 3), st.integers(1, 3)).filter(lambda rates: rates != (1, 1)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.sampled_from(("SAME", "VALID")),
)
def test_images(height: int, width: int, rates: Any, kernel: Any, padding: str) -> None:
    weights = RNG.standard_normal((*kernel, 3, 4), np.float32)
    ops, (before, after) = rewrite(
        lambda x: tf.nn.with_space_to_batch(
            x, rates, padding, lambda y, *_: tf.nn.conv2d(y, weights, 1, "VALID"), kernel
        ),
        (2, height, width, 3),
    )
    assert not ops["BatchToSpaceND"]
    np.testing.assert_allclose(after, before, atol=1e-5)


@given(
    steps=st.integers(12, 40),
    rate=st.integers(2, 5),
    kernel=st.integers(1, 3),
    padding=st.sampled_from(("SAME", "VALID")),
)
def test_sequences(steps: int, rate: int, kernel: int, padding: str) -> None:
    weights = RNG.standard_normal((kernel, 3, 4), np.float32)
    ops, (before, after) = rewrite(
        lambda x: tf.nn.convolution(x, weights, padding=padding, dilations=rate), (2, steps, 3)
    )
    assert not ops["BatchToSpaceND"]
    np.testing.assert_allclose(after, before, atol=1e-5)


def strided(x: Any) -> Any:
    return tf.nn.conv2d(x, np.ones((2, 2, 3, 4), np.float32), 2, "VALID")


def padded(x: Any) -> Any:
    return tf.nn.conv2d(x, np.ones((2, 2, 3, 4), np.float32), 1, "SAME")


def read_twice(x: Any) -> Any:
    y = tf.nn.conv2d(x, np.ones((1, 1, 3, 4), np.float32), 1, "VALID")
    return y + tf.reduce_sum(tf.square(y))


@pytest.mark.parametrize("inner", [strided, padded, read_twice, tf.nn.relu])
def test_other_batches_of_phases_stay(inner: Callable[[Any], Any]) -> None:
    ops, _ = rewrite(
        lambda x: tf.batch_to_space(inner(tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]])), [2, 2], [[0, 0], [0, 0]]),
        (1, 8, 8, 3),
    )
    assert ops["BatchToSpaceND"] == 1


def test_other_blocks_stay() -> None:
    weights, none = np.ones((1, 1, 3, 4), np.float32), [[0, 0], [0, 0]]

    def run(x: Any) -> Any:
        y = tf.nn.conv2d(tf.space_to_batch(x, [4, 1], none), weights, 1, "VALID")
        return tf.batch_to_space(y, [2, 2], none)

    ops, _ = rewrite(run, (1, 8, 8, 3))
    assert ops["BatchToSpaceND"] == 1
