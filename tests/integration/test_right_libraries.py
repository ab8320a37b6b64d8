"""Libraries that are right, and on whose inputs TensorFlow's own answer is off, or one of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow
from builder.importers.graph import FrozenGraph
from builder.verify.compare_answers import verify_library
from builder.verify.golden import GoldenFile
from builder.verify.reference_answers import make_golden_file
from builder.verify.verification import require_passed
from tests.support.build import build_library
from tests.support.models import freeze, save_graph, save_keras, spec_for

pytestmark = pytest.mark.integration

tf = import_tensorflow()

import keras  # noqa: E402

layers = keras.layers


def build_and_verify(graph: FrozenGraph, path: Path) -> None:
    """Raise VerifyError where the library of ``graph`` does not pass."""
    spec = spec_for(path)
    make_golden_file(spec, graph)
    folder = graph.folder / "library"
    folder.mkdir()
    require_passed(verify_library(build_library(graph, spec, folder).path, graph, spec))


def test_long_sums_equal_scores_and_ids_in_floats(tmp_path: Path) -> None:
    """The global mean of a picture's convolution, boxes of equal scores, and an embedding of ids in float32."""
    random = np.random.default_rng(1)

    def weights(*shape: int) -> Any:
        return tf.constant(random.normal(size=shape).astype("float32"))

    def all_three(x: Any, b: Any, s: Any, ids: Any) -> Any:
        kept = tf.nn.conv2d(x, weights(3, 3, 3, 8), 1, "VALID") + tf.linspace(0.3, 2.1, 8)
        boxes, scores, classes, count = tf.image.combined_non_max_suppression(
            tf.reshape(b, (1, 40, 1, 4)), tf.sigmoid(tf.reshape(s, (1, 40, 5))), 10, 20, 0.5, clip_boxes=False
        )
        return {
            "mean": tf.matmul(tf.reduce_mean(kept, [1, 2]), weights(8, 2)),
            **{"boxes": boxes, "scores": scores, "classes": classes, "count": count},
            "embedded": tf.reduce_mean(tf.gather(weights(7, 3), tf.cast(ids, tf.int32)), 1),
        }

    shapes = {"x": (1, 224, 224, 3), "b": (1, 160), "s": (1, 200), "ids": (1, 12)}
    graph = save_graph(all_three, {name: ("float32", shape) for name, shape in shapes.items()}, tmp_path)
    build_and_verify(graph, graph.graph_path)
    with GoldenFile.open(graph.golden_path) as golden:
        assert set(golden.undecided) <= {"zeros", "extremes"}
        assert "unstable sort" in golden.undecided["zeros"]
        ids = golden.read_feed("random-0", "ids")
    np.testing.assert_array_equal(ids, ids.round())


def test_mixed_bfloat16(tmp_path: Path) -> None:
    """Layers and loops that XLA rounds elsewhere than TensorFlow."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        x = keras.Input((6, 8), name="x")
        y = layers.GRU(8)(layers.LayerNormalization()(x))
        model = keras.Model(x, layers.Dense(3, dtype="float32")(layers.Dense(32, "gelu")(y)))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    path = save_keras(model, tmp_path / "mixed.keras")
    build_and_verify(freeze(path, tmp_path / "graph"), path)
