"""Ops that XLA has no kernel for, or that it answers otherwise, in ops that it has; one module for each family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites import (
    audio,
    casts,
    counting,
    crop,
    decoding,
    hashing,
    identities,
    linalg,
    lists,
    ragged,
    resize,
    rnn_blocks,
    segments,
    selection,
    sparse,
    special,
    stateless,
    suppression,
    volumes,
    windows,
)
from builder.importers.rewrites.op import NotRewritten, Only, Op, Rewrite

__all__ = ["OPEN", "REWRITES", "NotRewritten", "Op", "Rewrite", "rewrite_of"]

_FAMILIES = (
    audio,
    casts,
    counting,
    crop,
    decoding,
    hashing,
    identities,
    linalg,
    lists,
    ragged,
    rnn_blocks,
    resize,
    segments,
    selection,
    sparse,
    special,
    stateless,
    suppression,
    volumes,
    windows,
)

REWRITES: Mapping[str, Rewrite] = {op: rewrite for family in _FAMILIES for op, rewrite in family.REWRITES.items()}
"""By the name of the op."""

OPEN: frozenset[str] = frozenset().union(
    *(family.OPEN for family in (casts, counting, ragged, segments, selection, sparse, suppression))
)
"""Ops that are rewritten where the data decides the first size of an input, too."""

_ONLY: Only = {**casts.ONLY, **selection.ONLY}


def rewrite_of(node: Any) -> Rewrite | None:
    """Return the rewrite of a node of a GraphDef, if it has one for the node's types."""
    types = _ONLY.get(node.op, {})
    return REWRITES.get(node.op) if all(_has_type(node, name, *types[name]) for name in types) else None


def _has_type(node: Any, attribute: str, *types: str) -> bool:
    as_dtype = tf.dtypes.as_dtype
    return node.attr[attribute].type in {as_dtype(name).as_datatype_enum for name in types}
