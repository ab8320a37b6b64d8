"""Counts of whole numbers, whose size XLA must know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.importers.rewrites.op import Op, Rewrite
from builder.importers.tf import tensorflow


def dense_bincount(op: Op, values: Any, size: Any, weights: Any) -> Any:
    """The same op with a constant size, such as ``minlength = maxlength`` in ``tf.math.bincount`` gives."""
    return tensorflow().raw_ops.DenseBincount(
        input=values, size=op.constant(1), weights=weights, binary_output=op.attr("binary_output")
    )


def bincount(op: Op, values: Any, size: Any, weights: Any) -> Any:
    """``DenseBincount`` of all values in a row."""
    tf = tensorflow()
    flat, weights = (tf.reshape(tensor, [-1]) for tensor in (values, weights))
    return tf.raw_ops.DenseBincount(input=flat, size=op.constant(1), weights=weights)


REWRITES: Mapping[str, Rewrite] = {"Bincount": bincount, "DenseBincount": dense_bincount}
