"""Ranks, places and counts of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import FLOATS, NotRewritten, Op, rewrites
from builder.importers.rewrites.open_sizes import with_room


@rewrites("NthElement")
def rewrite_nth_element(op: Op, values: Any, n: Any) -> Any:
    """Find the number bit by bit, each by a count of the smaller numbers of a row.

    Numbers of other types than float32 and int32 are found by sorting each row. The same bits.
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
    """Turn the bits of floats into whole numbers of the same order, or back."""
    return tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.int32.max), bits)


@rewrites("InTopK", "InTopKV2", any_rows=True)
def rewrite_in_top_k(op: Op, predictions: Any, targets: Any, k: Any = None) -> Any:
    """Count the larger numbers; no target is among the largest of a row with NaN or infinity. The same answers."""
    classes = predictions.shape[1]
    k = tf.cast(op.get_attribute("k") if k is None else k, tf.int32)
    there = tf.logical_and(targets >= 0, targets < classes)
    wanted = tf.gather(predictions, tf.clip_by_value(targets, 0, classes - 1), batch_dims=1)
    larger = tf.reduce_sum(tf.cast(predictions > wanted[:, None], tf.int32), axis=1)
    return tf.reduce_all(tf.math.is_finite(predictions), axis=1) & there & (larger < k)


@rewrites("TopKV2", any_rows=True, types={"T": FLOATS})
def rewrite_top_k(op: Op, values: Any, k: Any) -> Any:
    """Take -0.0 and 0.0 for equal, so that they stay in their order: XLA puts 0.0 first.

    NaN has another place than in TensorFlow, where it depends on all the other numbers.
    """
    keys = tf.where(tf.equal(values, 0), tf.cast(0, values.dtype), values)
    _, places = tf.raw_ops.TopKV2(
        input=keys, k=k, sorted=op.get_attribute("sorted"), index_type=op.get_attribute("index_type")
    )
    return tf.gather(values, places, batch_dims=len(values.shape) - 1), places


@rewrites("ArgMax", "ArgMin", any_rows=True, types={"T": FLOATS})
def rewrite_arg_extreme(op: Op, values: Any, axis: Any) -> Any:
    """Pass over NaN, and answer 0 where all floats are NaN. The same numbers."""
    if op.type == "ArgMax":
        least = values.dtype.min
        return tf.argmax(tf.where(values > least, values, least), axis, op.get_attribute("output_type"))
    most = values.dtype.max
    return tf.argmin(tf.where(values < most, values, most), axis, op.get_attribute("output_type"))


@rewrites("Bucketize", any_rows=True, types={"T": FLOATS})
def rewrite_bucketize(op: Op, values: Any) -> Any:
    """Put NaN into the last bucket. The same numbers."""
    boundaries = op.get_attribute("boundaries")
    buckets = tf.raw_ops.Bucketize(input=values, boundaries=boundaries)
    return tf.where(tf.math.is_nan(values), len(boundaries), buckets)


@rewrites("UpperBound", any_rows=True, types={"T": FLOATS})
def rewrite_upper_bound(op: Op, ordered: Any, values: Any) -> Any:
    """Put NaN behind all others. The same numbers."""
    places = tf.raw_ops.UpperBound(sorted_inputs=ordered, values=values, out_type=op.get_attribute("out_type"))
    return tf.where(tf.math.is_nan(values), tf.cast(ordered.shape[1], places.dtype), places)


@rewrites("HistogramFixedWidth")
def rewrite_histogram(op: Op, values: Any, value_range: Any, bins: Any) -> Any:
    """Count in a constant number of bins.

    The same counts, but compiled, a value right between two bins may count in the other: XLA divides by a constant with
    its reciprocal.
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


@rewrites("UnravelIndex")
def rewrite_unravel_index(op: Op, indices: Any, dims: Any) -> Any:
    """Divide by constant dims. The same numbers."""
    sizes = op.get_constant(1)
    steps = np.cumprod([1, *sizes[:0:-1]], dtype=sizes.dtype)[::-1]
    return tf.stack([indices // step % size for step, size in zip(steps, sizes, strict=True)])


@rewrites("EuclideanNorm")
def rewrite_euclidean_norm(op: Op, values: Any, axes: Any) -> Any:
    """Sum the squares over constant axes. Off by the order of the sums."""
    squares = tf.reduce_sum(
        values * tf.math.conj(values), axis=op.get_constant(1).tolist(), keepdims=op.get_attribute("keep_dims")
    )
    return tf.sqrt(squares)


@rewrites("DenseBincount")
def rewrite_dense_bincount(op: Op, values: Any, size: Any, weights: Any) -> Any:
    """Take a constant size, such as ``minlength = maxlength`` in ``tf.math.bincount`` gives."""
    return tf.raw_ops.DenseBincount(
        input=values, size=op.get_constant(1), weights=weights, binary_output=op.get_attribute("binary_output")
    )


@rewrites("Bincount")
def rewrite_bincount(op: Op, values: Any, size: Any, weights: Any) -> Any:
    """Count all values in a row by ``DenseBincount``."""
    flat, weights = (tf.reshape(tensor, [-1]) for tensor in (values, weights))
    return tf.raw_ops.DenseBincount(input=flat, size=op.get_constant(1), weights=weights)


@rewrites("Unique", any_rows=True)
def rewrite_unique(op: Op, values: Any) -> Any:
    """Leave it to XLA where its size is always the same: XLA takes any other for the largest."""
    if values.shape[0] is not None:
        return None
    found, place, _ = _find_distinct(values, op.get_attribute("out_idx"))
    return found, place


@rewrites("UniqueWithCounts", "UniqueWithCountsV2", any_rows=True)
def rewrite_unique_with_counts(op: Op, values: Any, axis: Any = None) -> Any:
    """List the values of a vector in the order in which they come, with their counts. The same bits."""
    if len(values.shape) != 1:
        raise NotRewritten(f"its input has {len(values.shape)} axes, and can have one")
    return _find_distinct(values, op.get_attribute("out_idx"))


def _find_distinct(values: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Return the distinct values, the place among them of each value, and how often each comes."""
    roomy, there = with_room(values)
    # What is beyond stands for the first value again, and so for nothing new.
    given = tf.where(tf.range(tf.size(roomy)) < there, roomy, roomy[0]) if roomy is not values else values
    found, place = tf.unique(given, dtype)
    number = tf.where(there > 0, tf.size(found), 0)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(place), place, tf.size(roomy))
    counts -= tf.one_hot(0, tf.size(roomy), tf.cast(tf.size(roomy) - there, dtype), dtype=dtype)
    return found[:number], place[:there], counts[:number]
