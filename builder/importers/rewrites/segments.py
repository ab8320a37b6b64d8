"""Reductions over runs of rows: Segment* with ids that are known when the model is built, and SparseSegment*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.tf import tensorflow


def segment(op: Op, data: Any, ids: Any) -> Any:
    """With ids that are constants: the last one says how many segments there are. Off by the order of the sums."""
    tf = tensorflow()
    known = op.constant(1)
    count = int(known[-1]) + 1 if known.size else 0
    if op.type == "SegmentMean":
        return _mean(data, known, count, root=False)
    result = _UNSORTED[op.type](data, known, count)
    if op.type in ("SegmentMin", "SegmentMax"):
        there = [number in known for number in range(count)]
        shape = (-1, *([1] * (len(data.shape) - 1)))
        result = tf.where(tf.reshape(tf.constant(there, tf.bool), shape), result, tf.cast(0, data.dtype))
    return result


def sparse_segment(op: Op, data: Any, indices: Any, ids: Any, num_segments: Any = None) -> Any:
    """Of the rows that are named: their sum, mean, or sum over the root of how many there are. The ids have to be
    constants where no input says how many segments there are. Off by the order of the sums.
    """
    tf = tensorflow()
    if num_segments is not None:
        count = int(op.constant(3))
    else:
        ids = op.constant(2)
        count = int(ids[-1]) + 1 if ids.size else 0
    rows = tf.gather(data, indices)
    if op.type.startswith("SparseSegmentSum"):
        return tf.math.unsorted_segment_sum(rows, ids, count)
    return _mean(rows, ids, count, root=op.type.startswith("SparseSegmentSqrtN"))


def _mean(rows: Any, ids: Any, count: int, root: bool) -> Any:
    tf = tensorflow()
    sums = tf.math.unsorted_segment_sum(rows, ids, count)
    ones = tf.ones([rows.shape[0]], rows.dtype)
    numbers = tf.maximum(tf.math.unsorted_segment_sum(ones, ids, count), tf.cast(1, rows.dtype))
    numbers = tf.reshape(tf.sqrt(numbers) if root else numbers, (count, *([1] * (len(rows.shape) - 1))))
    return sums / numbers if rows.dtype.is_floating or rows.dtype.is_complex else tf.truncatediv(sums, numbers)


def _sum(data: Any, ids: Any, count: int) -> Any:
    return tensorflow().math.unsorted_segment_sum(data, ids, count)


def _product(data: Any, ids: Any, count: int) -> Any:
    return tensorflow().math.unsorted_segment_prod(data, ids, count)


def _minimum(data: Any, ids: Any, count: int) -> Any:
    return tensorflow().math.unsorted_segment_min(data, ids, count)


def _maximum(data: Any, ids: Any, count: int) -> Any:
    return tensorflow().math.unsorted_segment_max(data, ids, count)


_UNSORTED = {"SegmentSum": _sum, "SegmentProd": _product, "SegmentMin": _minimum, "SegmentMax": _maximum}

REWRITES: Mapping[str, Rewrite] = {
    **dict.fromkeys((*_UNSORTED, "SegmentMean"), segment),
    **{
        f"SparseSegment{kind}{size}": sparse_segment
        for kind in ("Sum", "Mean", "SqrtN")
        for size in ("", "WithNumSegments")
    },
}
