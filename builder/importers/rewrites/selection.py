"""Ranks, places and counts of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.tf import tensorflow


def nth_element(op: Op, values: Any, n: Any) -> Any:
    """Bit by bit, each by a count of the smaller numbers of a row; numbers of other types than float32 and int32 by
    sorting each row. The same bits.
    """
    tf = tensorflow()
    if op.attr("reverse"):
        n = values.shape[-1] - 1 - n
    if values.dtype not in (tf.float32, tf.int32):
        return tf.gather(tf.sort(values), n, axis=-1)
    keys = _ordered(tf.bitcast(values, tf.int32)) if values.dtype == tf.float32 else values
    bits = tf.constant(np.left_shift(1, np.arange(31, -1, -1), dtype=np.int64).astype(np.int32))

    def step(number: Any, found: Any) -> tuple[Any, Any]:
        """``found``: the greatest key of those with the bits so far that is not above the one that is sought."""
        larger = tf.bitwise.bitwise_xor(found, bits[number])
        below = tf.reduce_sum(tf.cast(keys < larger[..., None], tf.int32), axis=-1)
        return number + 1, tf.where(below <= n, larger, found)

    least = tf.fill(values.shape[:-1], tf.int32.min)
    _, found = tf.while_loop(lambda number, _: number < 32, step, (tf.constant(0), least))
    return tf.bitcast(_ordered(found), tf.float32) if values.dtype == tf.float32 else found


def _ordered(bits: Any) -> Any:
    """Those of floats as numbers of the same order, and back."""
    tf = tensorflow()
    return tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.int32.max), bits)


def in_top_k(op: Op, predictions: Any, targets: Any) -> Any:
    """By the op of version 2, which XLA has. The same answers."""
    tf = tensorflow()
    k = tf.constant(op.attr("k"), targets.dtype)
    return tf.raw_ops.InTopKV2(predictions=predictions, targets=targets, k=k)


def histogram(op: Op, values: Any, value_range: Any, bins: Any) -> Any:
    """With a constant number of bins. The same counts, but compiled, a value right between two bins may count in the
    other: XLA divides by a constant with its reciprocal.
    """
    tf = tensorflow()
    count = int(op.constant(2))
    dtype = op.attr("dtype")
    if values.shape.num_elements() == 0:
        return tf.zeros([count], dtype)
    values = tf.reshape(values, [-1])
    low, high = tf.cast(value_range[0], tf.float64), tf.cast(value_range[1], tf.float64)
    step = (high - low) / count
    scaled = (tf.cast(values, tf.float64) - low) / step
    place = tf.cast(tf.clip_by_value(tf.floor(scaled), 0.0, float(count - 1)), tf.int32)
    return tf.math.unsorted_segment_sum(tf.ones_like(place, dtype), place, count)


def unravel_index(op: Op, indices: Any, dims: Any) -> Any:
    """Of constant dims. The same numbers."""
    tf = tensorflow()
    sizes = op.constant(1)
    steps = np.cumprod([1, *sizes[:0:-1]], dtype=sizes.dtype)[::-1]
    return tf.stack([indices // step % size for step, size in zip(steps, sizes, strict=True)])


def euclidean_norm(op: Op, values: Any, axes: Any) -> Any:
    """Over constant axes. Off by the order of the sums."""
    tf = tensorflow()
    squares = tf.reduce_sum(values * tf.math.conj(values), axis=op.constant(1).tolist(), keepdims=op.attr("keep_dims"))
    return tf.sqrt(squares)


REWRITES: Mapping[str, Rewrite] = {
    "EuclideanNorm": euclidean_norm,
    "HistogramFixedWidth": histogram,
    "InTopK": in_top_k,
    "NthElement": nth_element,
    "UnravelIndex": unravel_index,
}
