"""Whole numbers that are written as strings and hashed: arithmetic in the graph that gives TensorFlow's own bits.

What is compiled of it, tests/conformance builds: Keras' Hashing and HashedCrossing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow
from builder.importers.allowed_ops import UnsupportedOpsError
from tests.support import needs
from tests.support.models import freeze, run_graph, save_keras

pytestmark = pytest.mark.integration

tf = import_tensorflow()
keras: Any = needs.needs_module("keras")
L: Any = keras.layers
S: Any = tf.strings

DRAWN = np.random.default_rng(23)
NUMBERS = np.concatenate(
    [
        [0, 1, -1, 9, 10, -9, -10, 2**63 - 1, -(2**63)],
        *(DRAWN.integers(-(10**digits), 10**digits, 40) for digits in range(1, 19)),
        DRAWN.integers(-(2**63), 2**63 - 1, 71),
    ]
).astype(np.int64)
"""Of every length that one can be written in, 1 to 20 letters."""


@pytest.mark.parametrize(
    "hashed",
    [
        lambda x: S.to_hash_bucket_fast(S.as_string(x), 2**62),
        lambda x: S.to_hash_bucket_fast(tf.identity(S.as_string(x)), 7),
        lambda x: S.to_hash_bucket_strong(S.as_string(x), 2**62, [2**63 - 1, 133]),
        lambda x: S.to_hash_bucket_strong(S.as_string(x), 10, [0, 1]),
    ],
    ids=["fast", "few", "strong", "few_strong"],
)
def test_every_length(hashed: Callable[[Any], Any], tmp_path: Path) -> None:
    assert {len(str(number)) for number in NUMBERS.tolist()} == set(range(1, 21))
    answer, wanted = both(hashed, NUMBERS, tmp_path)
    np.testing.assert_array_equal(answer, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_every_type(dtype: str, tmp_path: Path) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, 7, 100], dtype)
    answer, wanted = both(lambda x: S.to_hash_bucket_fast(S.as_string(x), 2**40), x, tmp_path)
    np.testing.assert_array_equal(answer, wanted)


def both(hashed: Callable[[Any], Any], x: Any, folder: Path) -> tuple[Any, Any]:
    """What the imported graph gives, which has no strings, and TensorFlow."""
    module = tf.Module()
    serve = tf.function(lambda x: {"y": hashed(x)}, input_signature=[tf.TensorSpec([len(x)], x.dtype, name="x")])
    tf.saved_model.save(module, str(folder / "m"), {"serving_default": serve})
    graph = freeze(folder / "m", folder / "out")
    assert not {node.op for node in graph.read_reference().node} & {"AsString", "StringToHashBucketFast"}
    return run_graph(graph, {"x": x})["y"], hashed(tf.constant(x)).numpy()


@pytest.mark.parametrize(
    "layer",
    [
        lambda: L.Hashing(1000),
        lambda: L.Hashing(9, mask_value=7, salt=[133, 137]),
        lambda: L.Hashing(5, output_mode="multi_hot"),
    ],
    ids=["buckets", "masked", "multi_hot"],
)
def test_a_layer_of_keras(layer: Callable[[], Any], tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,), dtype="int64"), layer()])
    graph = freeze(save_keras(model, tmp_path / "m.keras"), tmp_path / "out", batch=3)
    x = np.array([[7, 6, -7, 0], [10**12, 1, 2, 3], [-(10**17), 5, 7, 12345]])
    (answer,) = run_graph(graph, {graph.feeds[0].spec.name: x}).values()
    np.testing.assert_array_equal(answer, model.predict(x, verbose=0))


def test_written_numbers_that_are_crossed(tmp_path: Path) -> None:
    """Beside numbers as they are."""
    x = np.array([[7], [-3], [2**40], [0], [-(2**63)]])

    def crossed(x: Any) -> Any:
        columns = S.as_string(x), x, S.as_string(tf.cast(x % 100, tf.int32))
        return tf.sparse.to_dense(tf.sparse.cross_hashed(columns, 2**40))

    module = tf.Module()
    serve = tf.function(lambda x: {"y": crossed(x)}, input_signature=[tf.TensorSpec([5, 1], tf.int64, name="x")])
    tf.saved_model.save(module, str(tmp_path / "m"), {"serving_default": serve})
    graph = freeze(tmp_path / "m", tmp_path / "out", batch=5)
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], crossed(tf.constant(x)))


def test_written_numbers_that_are_looked_up(tmp_path: Path) -> None:
    keys = ["7", "-12", "red", "007", "9223372036854775807", "-0", "99999999999999999999", "٣"]

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            filled = tf.lookup.KeyValueTensorInitializer(keys, tf.range(1, len(keys) + 1, dtype=tf.int64))
            self.table = tf.lookup.StaticHashTable(filled, -5)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int32, name="x")])
        def serve(self, x: Any) -> Any:
            return {"y": self.table.lookup(S.as_string(x))}

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "m"), {"serving_default": model.serve})
    graph = freeze(tmp_path / "m", tmp_path / "out", batch=3)
    x = np.array([[7, -12], [0, 3], [2**31 - 1, 99]], np.int32)
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], model.serve(tf.constant(x))["y"])


def test_a_number_that_is_written_with_a_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOpsError, match="AsString"):
        both(lambda x: S.to_hash_bucket_fast(S.as_string(x, width=5), 9), np.arange(3), tmp_path)
