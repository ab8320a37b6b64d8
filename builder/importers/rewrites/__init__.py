"""Ops that XLA has no kernel for, rewritten as ops that it has; one module for each family of ops."""

from __future__ import annotations

from collections.abc import Mapping

from builder.importers.rewrites import (
    audio,
    counting,
    crop,
    decoding,
    hashing,
    identities,
    linalg,
    lists,
    ragged,
    recurrent,
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
from builder.importers.rewrites.op import NotRewritten, Op, Rewrite

__all__ = ["OPEN", "REWRITES", "NotRewritten", "Op", "Rewrite"]

_FAMILIES = (
    audio,
    counting,
    crop,
    decoding,
    hashing,
    identities,
    linalg,
    lists,
    ragged,
    recurrent,
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

OPEN: frozenset[str] = frozenset().union(ragged.OPEN, segments.OPEN, sparse.OPEN, counting.OPEN, suppression.OPEN)
"""Ops that are rewritten where the data decides the first size of an input, too."""
