"""The ranges of indices: TensorFlow raises outside of them and answers inside, for every op and every way to one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from builder.base.tf import import_tensorflow, reference_session
from builder.config.tensor import IndexRange, TensorSpec, integer_limits
from builder.importers.index_ranges import find_index_ranges

tf = import_tensorflow()
raw = tf.raw_ops

TABLE = np.arange(30, dtype=np.float32).reshape(10, 3)
SPARSE = {"a_values": [1.0, 1.0], "a_shape": np.array([10, 4], np.int64)}
PLAIN = np.array([0, 1])
LIMITS = integer_limits("int32")

Model = Callable[[Any], Any]

CHECKED: dict[str, Model] = {
    "Bincount": lambda i: raw.Bincount(arr=i, size=10, weights=tf.zeros([0])),
    "CropAndResize": lambda i: tf.image.crop_and_resize(tf.zeros((10, 4, 4, 1)), tf.zeros((2, 4)), i, (2, 2)),
    "DenseBincount": lambda i: raw.DenseBincount(input=i, size=10, weights=tf.zeros([0])),
    "DynamicPartition": lambda i: tf.dynamic_partition([1.0, 2.0], i, 10)[0],
    "Gather": lambda i: raw.Gather(params=TABLE, indices=i),
    "GatherNd, column 0": lambda i: tf.gather_nd(TABLE, tf.stack([i, [0, 0]], 1)),
    "GatherNd, column 1": lambda i: tf.gather_nd(TABLE, tf.stack([[0, 0], i], 1)),
    "GatherNd, both": lambda i: tf.gather_nd(TABLE, i),
    "GatherV2": lambda i: tf.gather(TABLE, i),
    "GatherV2, axis -1": lambda i: tf.gather(TABLE, i, axis=-1),
    "GatherV2, batch": lambda i: tf.gather(TABLE[:2], i, batch_dims=1, axis=1),
    "ReverseSequence": lambda i: tf.reverse_sequence(tf.zeros((2, 10, 3)), i, 1),
    "ScatterNd": lambda i: tf.scatter_nd(i[:, None], tf.zeros((2, 3)), (10, 3)),
    "ScatterNdNonAliasingAdd": lambda i: raw.ScatterNdNonAliasingAdd(
        input=TABLE, indices=i[:, None], updates=TABLE[:2]
    ),
    "Slice, sizes": lambda i: tf.slice(TABLE, i, [3, 2]),
    "Slice, the rest": lambda i: tf.slice(TABLE, i, [-1, 1]),
    "SparseSegmentMean": lambda i: tf.sparse.segment_mean(TABLE, i, [0, 1]),
    "SparseSegmentSqrtN": lambda i: tf.sparse.segment_sqrt_n(TABLE, i, [0, 1]),
    "SparseSegmentSum": lambda i: tf.sparse.segment_sum(TABLE, i, [0, 1]),
    "SparseSegmentSumWithNumSegments, rows": lambda i: tf.sparse.segment_sum(TABLE, i, [0, 1], num_segments=3),
    "SparseSegmentSumWithNumSegments, segments": lambda i: tf.sparse.segment_sum(TABLE, [0], i[1:], num_segments=3),
    "SparseSoftmaxCrossEntropyWithLogits": lambda i: tf.nn.sparse_softmax_cross_entropy_with_logits(
        i, tf.zeros((2, 10))
    ),
    "SparseTensorDenseMatMul": lambda i: raw.SparseTensorDenseMatMul(
        a_indices=tf.cast(tf.stack([i, [0, 0]], 1), tf.int64), **SPARSE, b=TABLE[:4]
    ),
    "SparseTensorDenseMatMul, transposed": lambda i: raw.SparseTensorDenseMatMul(
        a_indices=tf.cast(tf.stack([[0, 0], i], 1), tf.int64), **SPARSE, b=TABLE, adjoint_a=True
    ),
    "SparseToDense": lambda i: raw.SparseToDense(
        sparse_indices=i, output_shape=[10], sparse_values=1.0, default_value=0.0, validate_indices=False
    ),
    "SparseToDense, a place": lambda i: raw.SparseToDense(
        sparse_indices=i[None], output_shape=[10, 3], sparse_values=[1.0], default_value=0.0
    ),
    "SparseToDense, one": lambda i: raw.SparseToDense(
        sparse_indices=i[0], output_shape=[10], sparse_values=1.0, default_value=0.0
    ),
    "StridedSlice, rows": lambda i: tf.constant(TABLE)[i[0]],
    "StridedSlice, columns": lambda i: tf.constant(TABLE)[tf.newaxis, ..., i[1]],
    "StridedSlice, both": lambda i: tf.constant(TABLE)[i[0], tf.newaxis, i[1]],
    "TensorScatterAdd": lambda i: tf.tensor_scatter_nd_add(TABLE, i[:, None], TABLE[:2]),
    "TensorScatterMax": lambda i: tf.tensor_scatter_nd_max(TABLE, i[:, None], TABLE[:2]),
    "TensorScatterMin": lambda i: tf.tensor_scatter_nd_min(TABLE, i[:, None], TABLE[:2]),
    "TensorScatterSub": lambda i: tf.tensor_scatter_nd_sub(TABLE, i[None], [1.0]),
    "TensorScatterUpdate": lambda i: tf.tensor_scatter_nd_update(TABLE, i[:, None], TABLE[:2]),
    "UnravelIndex": lambda i: tf.unravel_index(i, [2, 5]),
    "UnsortedSegmentMax": lambda i: tf.math.unsorted_segment_max(TABLE[:2], i, 10),
    "UnsortedSegmentMin": lambda i: tf.math.unsorted_segment_min(TABLE[:2], i, 10),
    "UnsortedSegmentProd": lambda i: tf.math.unsorted_segment_prod(TABLE[:2], i, 10),
    "UnsortedSegmentSum": lambda i: tf.math.unsorted_segment_sum(TABLE[:2], i, 10),
}
"""TensorFlow raises on some values of ``i``, int32 [2], whatever the other one is."""


def count_from_the_end(ids: Any) -> Any:
    return tf.where(ids < 0, ids + 10, ids)


MOVED: dict[str, Model] = {
    "BroadcastTo": lambda i: tf.broadcast_to(i[:, None], (2, 3)),
    "Cast to floats": lambda i: tf.cast(tf.cast(i, tf.float32), tf.int32),
    "ConcatV2": lambda i: tf.concat([[9], i, [3, 4]], 0),
    "ExpandDims": lambda i: tf.expand_dims(i, 0),
    "GatherNd": lambda i: tf.gather_nd(i, [[1], [1]]),
    "GatherV2": lambda i: tf.gather(i, [1, 1, 0]),
    "Identity": lambda i: tf.stop_gradient(tf.identity(i)),
    "Pack": lambda i: tf.stack([[2, 3], i], 1),
    "Reshape": lambda i: tf.reshape(i, tf.shape(i[None])),
    "ReverseV2": lambda i: tf.reverse(i, [0]),
    "Slice": lambda i: tf.slice(i, [1], [1]),
    "Split": lambda i: tf.split(i, 2)[1],
    "SplitV": lambda i: tf.split(i, [1, 1])[1],
    "Squeeze": lambda i: tf.squeeze(i[None], 0),
    "StridedSlice": lambda i: i[::-1],
    "Tile": lambda i: tf.tile(i, [2]),
    "Transpose": lambda i: tf.transpose(tf.stack([i, [2, 3]])),
    "Unpack": lambda i: tf.unstack(i)[1],
    "a long chain": lambda i: functools.reduce(lambda ids, _: tf.identity(ids), range(1500), i),
    "NumPy's negative ones": lambda i: count_from_the_end(i),
    "NumPy's negative ones, moved": lambda i: tf.transpose(count_from_the_end(tf.tile(i[None], [2, 1]))),
}
"""Ways of ``i`` to a gather of ten rows."""

CALCULATED: dict[str, Model] = {
    "a sum": lambda i: tf.gather(TABLE, i + 1),
    "a product": lambda i: tf.gather(TABLE, i * 2),
    "a narrower type": lambda i: tf.gather(TABLE, tf.cast(i, tf.int16)),
    "clipped": lambda i: tf.gather(TABLE, tf.clip_by_value(i, 0, 9)),
    "another wrap": lambda i: tf.gather(TABLE, tf.where(i < 0, i + 5, i)),
    "another condition": lambda i: tf.gather(TABLE, tf.where(i < 1, i + 10, i)),
    "of nothing": lambda i: tf.gather(TABLE[:, :0], i),
    "of nothing, summed": lambda i: tf.math.unsorted_segment_sum(TABLE[:2, :0], i, 10),
    "in a branch": lambda i: tf.cond(i[0] > 1, lambda: tf.gather(TABLE, i), lambda: TABLE[:2]),
    "OneHot": lambda i: tf.one_hot(i, 10),
    "InTopK": lambda i: tf.math.in_top_k(i, TABLE[:2], 1),
    "StridedSlice, ends": lambda i: tf.constant(TABLE)[i[0] : i[1]],
    "no index": lambda i: tf.cast(i, tf.float32) * 2.0,
}
"""There is no range, or none that is known."""


class Traced:
    """A model of ``i``, its ranges and TensorFlow's own answers."""

    def __init__(self, model: Model, dtype: str = "int32", shape: tuple[int, ...] = (2,)) -> None:
        self.spec = TensorSpec("i", dtype, shape)
        with tf.Graph().as_default() as self.graph:
            self.feed = tf.compat.v1.placeholder(dtype, shape)
            self.result = model(self.feed)
            found = find_index_ranges(self.graph.get_operations(), {self.feed.name: self.spec})  # as a build does
        self.ranges = found.get(self.feed.name, ())

    def range_of(self, element: int) -> tuple[int, int]:
        for one in self.ranges:
            if one.first <= element % one.period < one.first + one.count:
                return one.minimum, one.maximum
        return LIMITS

    def answers(self, ids: Any) -> bool:
        with reference_session(self.graph) as session:
            try:
                session.run(self.result, {self.feed: ids})
            except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError):
                return False
        return True

    def agrees(self) -> bool:
        """Try the ends of each element's range, and beyond, while the other elements are plain."""
        for element in range(self.spec.elements):
            low, high = self.range_of(element)
            for value in {*LIMITS, -11, -1, 0, 3, 11, low - 1, low, high, high + 1}:
                if LIMITS[0] <= value <= LIMITS[1]:
                    ids = np.resize(PLAIN, self.spec.shape)
                    ids.flat[element] = value
                    assert self.answers(ids) == (low <= value <= high), (element, value, low, high)
        return True


@pytest.mark.parametrize("name", CHECKED)
def test_tensorflow_raises_outside_of_the_range_of_an_op(name: str) -> None:
    traced = Traced(CHECKED[name])
    assert traced.ranges
    assert traced.agrees()


@pytest.mark.parametrize("name", MOVED)
def test_an_index_is_followed_through_what_moves_it(name: str) -> None:
    traced = Traced(lambda i: tf.gather(TABLE, MOVED[name](i)))
    assert traced.ranges
    assert traced.agrees()


@pytest.mark.parametrize("name", CALCULATED)
def test_a_calculated_index_has_no_range(name: str) -> None:
    assert Traced(CALCULATED[name]).ranges == ()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_a_range_is_of_the_type_of_the_input(dtype: str) -> None:
    def model(ids: Any) -> Any:
        return tf.gather(np.zeros(200), tf.cast(ids, tf.int32))

    most = 127 if dtype == "int8" else 199
    (one,) = Traced(model, dtype).ranges
    assert (one.first, one.count, one.period, one.minimum, one.maximum) == (0, 1, 1, 0, most)


@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint64"])
def test_a_wide_index_is_looked_at_before_it_is_cast(dtype: str) -> None:
    traced = Traced(lambda ids: tf.gather(TABLE, tf.cast(ids, tf.int32)), dtype)
    (one,) = traced.ranges
    assert (one.first, one.count, one.period, one.minimum, one.maximum) == (0, 1, 1, 0, 9)
    low, high = integer_limits(dtype)
    for value in {low, max(low, -1), 0, 9, 10, 1 << 31, (1 << 32) - 1, 3 - (low >> 31), high}:
        index = int(np.asarray(value, dtype).astype(np.int32))  # TensorFlow takes what is left of a larger number
        assert traced.answers([0, value]) == (0 <= index <= 9)


def test_a_range_without_a_lower_end_is_not_known_before_a_cast() -> None:
    def model(ids: Any) -> Any:
        return tf.math.unsorted_segment_sum(TABLE[:2], tf.cast(ids, tf.int32), 10)

    assert Traced(model, "int64").ranges == ()


def test_a_range_that_holds_every_value_is_none() -> None:
    assert Traced(lambda ids: tf.gather(np.zeros(256), tf.cast(ids, tf.int32)), "uint8").ranges == ()


def test_columns_of_an_input_have_ranges_of_their_own() -> None:
    def model(ids: Any) -> Any:
        return tf.gather(TABLE, ids[:, 0]), tf.gather(TABLE, ids[:, 2], axis=1), tf.gather(TABLE, ids[:, 3])

    traced = Traced(model, shape=(3, 4))
    assert traced.ranges == (IndexRange(0, 1, 4, 0, 9), IndexRange(2, 1, 4, 0, 2), IndexRange(3, 1, 4, 0, 9))
    assert traced.agrees()


def test_the_narrower_of_two_ranges_holds() -> None:
    traced = Traced(lambda ids: (tf.gather(TABLE, ids), tf.gather(TABLE[:4], ids), tf.gather(TABLE, ids[:1])))
    assert traced.ranges == (IndexRange(0, 1, 1, 0, 3),)


def test_large_numbers_that_a_float_rounds_are_left_alone() -> None:
    rows = (1 << 24) + 2
    assert Traced(lambda ids: tf.gather(tf.zeros(rows, tf.bool), tf.cast(ids, tf.int32)), "float32").ranges == ()
