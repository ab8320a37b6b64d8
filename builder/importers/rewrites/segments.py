"""Reductions over runs of rows: Segment* and SparseSegment*, as embeddings of sparse tensors have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.rewrites.open_sizes import take_first


def rewrite_segment(op: Op, data: Any, ids: Any) -> Any:
    """Of ids that are constants, or the rows of a sparse tensor of constant shape: either says how many segments there
    can be. Off by the order of the sums.
    """
    ids, count, number = _count_segments(op, ids, 1)
    result = _UNSORTED[op.type](data, ids, count)
    if op.type in ("SegmentMin", "SegmentMax"):
        there = tf.math.unsorted_segment_sum(tf.ones_like(ids, tf.int32), ids, count) > 0
        shape = (count, *([1] * (len(data.shape) - 1)))
        result = tf.where(tf.reshape(there, shape), result, tf.cast(0, data.dtype))
    return result if number is None else take_first(result, number, ids)


def rewrite_sparse_segment(op: Op, data: Any, indices: Any, ids: Any, num_segments: Any = None) -> Any:
    """Of the rows that are named: their sum, mean, or sum over the root of how many there are. How many segments there
    can be is told by an input, or as for SegmentSum. Off by the order of the sums.
    """
    number = None
    if num_segments is not None:
        count = int(op.get_constant(3))
    else:
        ids, count, number = _count_segments(op, ids, 2)
    rows = tf.gather(data, indices)
    if op.type.startswith("SparseSegmentSum"):
        result = tf.math.unsorted_segment_sum(rows, ids, count)
    else:
        result = _average_segments(rows, ids, count, root=op.type.startswith("SparseSegmentSqrtN"))
    return result if number is None else take_first(result, number, ids)


def _count_segments(op: Op, ids: Any, place: int) -> tuple[Any, int, Any | None]:
    """The ids, which are input ``place``, the most segments there can be, and how many there are if the data decides.

    The last id says how many there are.
    """
    if (known := op.find_constant(place)) is not None:
        return known, int(known[-1]) + 1 if known.size else 0, None
    rows = op.get_row_limit(place)
    if rows.all_there:
        return ids, rows.most, None
    return ids, rows.most, tf.maximum(tf.cast(tf.reduce_max(ids), tf.int32), -1) + 1


def _average_segments(rows: Any, ids: Any, count: int, root: bool) -> Any:
    sums = tf.math.unsorted_segment_sum(rows, ids, count)
    ones = tf.ones_like(ids, rows.dtype)
    numbers = tf.maximum(tf.math.unsorted_segment_sum(ones, ids, count), tf.cast(1, rows.dtype))
    numbers = tf.reshape(tf.sqrt(numbers) if root else numbers, (count, *([1] * (len(rows.shape) - 1))))
    return sums / numbers if rows.dtype.is_floating or rows.dtype.is_complex else tf.truncatediv(sums, numbers)


_UNSORTED: Mapping[str, Callable[[Any, Any, int], Any]] = {
    "SegmentMax": lambda *rows: tf.math.unsorted_segment_max(*rows),
    "SegmentMean": lambda rows, ids, count: _average_segments(rows, ids, count, root=False),
    "SegmentMin": lambda *rows: tf.math.unsorted_segment_min(*rows),
    "SegmentProd": lambda *rows: tf.math.unsorted_segment_prod(*rows),
    "SegmentSum": lambda *rows: tf.math.unsorted_segment_sum(*rows),
}

REWRITES: Mapping[str, Rewrite] = {
    **dict.fromkeys(_UNSORTED, rewrite_segment),
    **{
        f"SparseSegment{kind}{size}": rewrite_sparse_segment
        for kind in ("Sum", "Mean", "SqrtN")
        for size in ("", "WithNumSegments")
    },
}

OPEN = frozenset(REWRITES)
