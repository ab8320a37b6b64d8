"""Find the inputs in which a graph looks for NaN, as one does that takes NaN for a missing number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from builder.importers.graph import FrozenGraph
from builder.importers.rewrite import node_of, reachable, reads

_TESTS = frozenset({"Bucketize", "IsFinite", "IsInf", "IsNan"})
_COMPARISONS = frozenset({"Equal", "NotEqual"})
"""Tests of a tensor that is compared with itself."""

_CARRIERS = frozenset({
    "Add", "AddV2", "Cast", "ConcatV2", "Div", "ExpandDims", "GatherV2", "Identity", "Mul", "Neg", "Pack", "RealDiv",
    "Reshape", "Slice", "Split", "SplitV", "Squeeze", "StridedSlice", "Sub", "Tile", "Transpose", "Unpack",
})  # fmt: skip
"""Ops whose output has the NaN of their input."""


def find_missing_values(graph: FrozenGraph) -> tuple[str, ...]:
    """Return the names of the floating-point inputs that ``graph`` tests for NaN, or sorts into buckets."""
    nodes = graph.reference().node
    feeds = {node_of(port.tensor): port.spec.name for port in graph.feeds if port.spec.dtype.startswith("float")}
    carried = reads((node for node in nodes if node.op in _CARRIERS), control=False)
    tested = reachable(_tested(nodes), carried | {feed: [] for feed in feeds})
    return tuple(name for feed, name in feeds.items() if feed in tested)


def _tested(nodes: Any) -> Iterator[str]:
    """Yield the nodes whose first output a node tests for NaN."""
    for node in nodes:
        itself = node.op in _COMPARISONS and node.input[0] == node.input[1]
        if node.op in _TESTS or itself:
            yield node_of(node.input[0])
