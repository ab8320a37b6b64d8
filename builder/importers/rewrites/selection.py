"""Ranks, places and counts of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import FLOATS, Only, Op, Rewrite


def rewrite_nth_element(op: Op, values: Any, n: Any) -> Any:
    """Bit by bit, each by a count of the smaller numbers of a row; numbers of other types than float32 and int32 by
    sorting each row. The same bits.
    """
    if op.get_attribute("reverse"):
        n = values.shape[-1] - 1 - n
    if values.dtype not in (tf.float32, tf.int32):
        return tf.gather(tf.sort(values), n, axis=-1)
    keys = _order_bits(tf.bitcast(values, tf.int32)) if values.dtype == tf.float32 else values
    bits = tf.constant(np.left_shift(1, np.arange(31, -1, -1), dtype=np.int64).astype(np.int32))

    def step(number: Any, found: Any) -> tuple[Any, Any]:
        """``found``: the greatest key of those with the bits so far that is not above the one that is sought."""
        larger = tf.bitwise.bitwise_xor(found, bits[number])
        below = tf.reduce_sum(tf.cast(keys < larger[..., None], tf.int32), axis=-1)
        return number + 1, tf.where(below <= n, larger, found)

    least = tf.fill(values.shape[:-1], tf.int32.min)
    _, found = tf.while_loop(lambda number, _: number < 32, step, (tf.constant(0), least))
    return tf.bitcast(_order_bits(found), tf.float32) if values.dtype == tf.float32 else found


def _order_bits(bits: Any) -> Any:
    """Those of floats as numbers of the same order, and back."""
    return tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.int32.max), bits)


def rewrite_in_top_k(op: Op, predictions: Any, targets: Any, k: Any = None) -> Any:
    """Count the larger numbers; no target is among the largest of a row with NaN or infinity. The same answers."""
    classes = predictions.shape[1]
    k = tf.cast(op.get_attribute("k") if k is None else k, tf.int32)
    there = tf.logical_and(targets >= 0, targets < classes)
    wanted = tf.gather(predictions, tf.clip_by_value(targets, 0, classes - 1), batch_dims=1)
    larger = tf.reduce_sum(tf.cast(predictions > wanted[:, None], tf.int32), axis=1)
    return tf.reduce_all(tf.math.is_finite(predictions), axis=1) & there & (larger < k)


def rewrite_top_k(op: Op, values: Any, k: Any) -> Any:
    """Take -0.0 and 0.0 for equal, so that they stay in their order: XLA puts 0.0 first. NaN has another place than in
    TensorFlow, where it depends on all the other numbers.
    """
    keys = tf.where(tf.equal(values, 0), tf.cast(0, values.dtype), values)
    _, places = tf.raw_ops.TopKV2(
        input=keys, k=k, sorted=op.get_attribute("sorted"), index_type=op.get_attribute("index_type")
    )
    return tf.gather(values, places, batch_dims=len(values.shape) - 1), places


def rewrite_arg_extreme(op: Op, values: Any, axis: Any) -> Any:
    """Pass over NaN, and answer 0 where all floats are NaN. The same numbers."""
    if op.type == "ArgMax":
        least = values.dtype.min
        return tf.argmax(tf.where(values > least, values, least), axis, op.get_attribute("output_type"))
    most = values.dtype.max
    return tf.argmin(tf.where(values < most, values, most), axis, op.get_attribute("output_type"))


def rewrite_bucketize(op: Op, values: Any) -> Any:
    """Put NaN into the last bucket. The same numbers."""
    boundaries = op.get_attribute("boundaries")
    buckets = tf.raw_ops.Bucketize(input=values, boundaries=boundaries)
    return tf.where(tf.math.is_nan(values), len(boundaries), buckets)


def rewrite_upper_bound(op: Op, ordered: Any, values: Any) -> Any:
    """Put NaN behind all others. The same numbers."""
    places = tf.raw_ops.UpperBound(sorted_inputs=ordered, values=values, out_type=op.get_attribute("out_type"))
    return tf.where(tf.math.is_nan(values), tf.cast(ordered.shape[1], places.dtype), places)


def rewrite_histogram(op: Op, values: Any, value_range: Any, bins: Any) -> Any:
    """With a constant number of bins. The same counts, but compiled, a value right between two bins may count in the
    other: XLA divides by a constant with its reciprocal.
    """
    count = int(op.get_constant(2))
    dtype = op.get_attribute("dtype")
    if values.shape.num_elements() == 0:
        return tf.zeros([count], dtype)
    values = tf.reshape(values, [-1])
    low, high = tf.cast(value_range[0], tf.float64), tf.cast(value_range[1], tf.float64)
    step = (high - low) / count
    scaled = (tf.cast(values, tf.float64) - low) / step
    place = tf.cast(tf.clip_by_value(tf.floor(scaled), 0.0, float(count - 1)), tf.int32)
    return tf.math.unsorted_segment_sum(tf.ones_like(place, dtype), place, count)


def rewrite_unravel_index(op: Op, indices: Any, dims: Any) -> Any:
    """Of constant dims. The same numbers."""
    sizes = op.get_constant(1)
    steps = np.cumprod([1, *sizes[:0:-1]], dtype=sizes.dtype)[::-1]
    return tf.stack([indices // step % size for step, size in zip(steps, sizes, strict=True)])


def rewrite_euclidean_norm(op: Op, values: Any, axes: Any) -> Any:
    """Over constant axes. Off by the order of the sums."""
    squares = tf.reduce_sum(
        values * tf.math.conj(values), axis=op.get_constant(1).tolist(), keepdims=op.get_attribute("keep_dims")
    )
    return tf.sqrt(squares)


REWRITES: Mapping[str, Rewrite] = {
    "ArgMax": rewrite_arg_extreme,
    "ArgMin": rewrite_arg_extreme,
    "Bucketize": rewrite_bucketize,
    "EuclideanNorm": rewrite_euclidean_norm,
    "HistogramFixedWidth": rewrite_histogram,
    "InTopK": rewrite_in_top_k,
    "InTopKV2": rewrite_in_top_k,
    "NthElement": rewrite_nth_element,
    "TopKV2": rewrite_top_k,
    "UnravelIndex": rewrite_unravel_index,
    "UpperBound": rewrite_upper_bound,
}

ONLY: Only = {op: {"T": FLOATS} for op in ("ArgMax", "ArgMin", "Bucketize", "TopKV2", "UpperBound")}

OPEN = frozenset({*ONLY, "InTopK", "InTopKV2"})
