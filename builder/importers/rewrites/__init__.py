"""Ops that XLA has no kernel for, or that it answers otherwise, in ops that it has; one module for each family."""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites import (  # noqa: F401  Each registers its rewrites.
    bits,
    linalg,
    lists,
    numeric,
    ragged,
    resampling,
    rnn_blocks,
    selection,
    sparse,
    speech,
    suppression,
    windows,
)
from builder.importers.rewrites.op import REWRITES, TYPES, Rewrite

__all__ = ["REWRITES", "rewrite_of"]


def rewrite_of(node: Any) -> Rewrite | None:
    """Return the rewrite of a node of a GraphDef, if it has one for the node's types."""
    if node.op not in REWRITES:
        return None
    as_dtype = tf.dtypes.as_dtype
    fits = (
        node.attr[attribute].type in {as_dtype(name).as_datatype_enum for name in names}
        for attribute, names in TYPES[node.op].items()
    )
    return REWRITES[node.op] if all(fits) else None
