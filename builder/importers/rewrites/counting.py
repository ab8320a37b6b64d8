"""Counts of whole numbers, whose size XLA must know, and values that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, Rewrite
from builder.importers.rewrites.open_sizes import with_room


def rewrite_dense_bincount(op: Op, values: Any, size: Any, weights: Any) -> Any:
    """The same op with a constant size, such as ``minlength = maxlength`` in ``tf.math.bincount`` gives."""
    return tf.raw_ops.DenseBincount(
        input=values, size=op.get_constant(1), weights=weights, binary_output=op.get_attribute("binary_output")
    )


def rewrite_bincount(op: Op, values: Any, size: Any, weights: Any) -> Any:
    """``DenseBincount`` of all values in a row."""
    flat, weights = (tf.reshape(tensor, [-1]) for tensor in (values, weights))
    return tf.raw_ops.DenseBincount(input=flat, size=op.get_constant(1), weights=weights)


def rewrite_unique(op: Op, values: Any) -> Any:
    """Left to XLA where its size is always the same: XLA takes any other for the largest."""
    if values.shape[0] is not None:
        return None
    found, place, _ = _find_distinct(values, op.get_attribute("out_idx"))
    return found, place


def rewrite_unique_with_counts(op: Op, values: Any, axis: Any = None) -> Any:
    """Of a vector: the values in the order in which they come, and how often. The same bits."""
    if len(values.shape) != 1:
        raise NotRewritten(f"its input has {len(values.shape)} axes, and can have one")
    return _find_distinct(values, op.get_attribute("out_idx"))


def _find_distinct(values: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """The values, the place among them of each that is given, and how often each comes."""
    roomy, there = with_room(values)
    # What is beyond stands for the first value again, and so for nothing new.
    given = tf.where(tf.range(tf.size(roomy)) < there, roomy, roomy[0]) if roomy is not values else values
    found, place = tf.unique(given, dtype)
    number = tf.where(there > 0, tf.size(found), 0)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(place), place, tf.size(roomy))
    counts -= tf.one_hot(0, tf.size(roomy), tf.cast(tf.size(roomy) - there, dtype), dtype=dtype)
    return found[:number], place[:there], counts[:number]


REWRITES: Mapping[str, Rewrite] = {
    "Bincount": rewrite_bincount,
    "DenseBincount": rewrite_dense_bincount,
    "Unique": rewrite_unique,
    "UniqueWithCounts": rewrite_unique_with_counts,
    "UniqueWithCountsV2": rewrite_unique_with_counts,
}

OPEN = frozenset({"Unique", "UniqueWithCounts", "UniqueWithCountsV2"})
