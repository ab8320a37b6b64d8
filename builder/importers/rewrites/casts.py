"""Floats as whole numbers, and their absolute values, as TensorFlow computes them on x86 where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import FLOATS, WHOLE, Only, Op, Rewrite


def rewrite_cast(op: Op, x: Any) -> Any:
    """Make NaN, and floats that do not fit into int32 or int64, the type's least number, as TensorFlow does on x86. XLA
    takes the nearest bound, and 0 for NaN. In uint32, numbers below 0 have the bits that they have in int32.
    """
    dtype = op.get_attribute("DstT")
    wide = x if x.dtype.size >= 4 else tf.cast(x, tf.float32)
    if dtype == tf.uint32:
        return tf.where((wide >= -(2.0**31)) & (wide < 2.0**32), tf.cast(tf.cast(wide, tf.int64), dtype), 2**31)
    return tf.where(wide < -float(dtype.min), tf.cast(wide, dtype), dtype.min)


def rewrite_abs(op: Op, x: Any) -> Any:
    """Take the larger of a whole number and its negative: XLA relies on squares that are not negative, though they
    overflow. The same numbers.
    """
    return tf.maximum(x, -x)


REWRITES: Mapping[str, Rewrite] = {"Abs": rewrite_abs, "Cast": rewrite_cast}

ONLY: Only = {"Abs": {"T": WHOLE}, "Cast": {"SrcT": FLOATS, "DstT": ("int32", "int64", "uint32")}}

OPEN = frozenset(REWRITES)
