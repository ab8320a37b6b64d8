"""The inputs that a graph tests for NaN, which it treats as a missing number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from builder.importers.graph import GraphPort
from builder.importers.rewrite import find_reachable, map_node_inputs, node_of

_TESTS = frozenset({"Bucketize", "IsFinite", "IsInf", "IsNan"})
_COMPARISONS = frozenset({"Equal", "NotEqual"})
"""Comparisons of a tensor with itself that test for NaN."""

_CARRIERS = frozenset({
    "Add", "AddV2", "Cast", "ConcatV2", "Div", "ExpandDims", "GatherV2", "Identity", "Mul", "Neg", "Pack", "RealDiv",
    "Reshape", "Slice", "Split", "SplitV", "Squeeze", "StridedSlice", "Sub", "Tile", "Transpose", "Unpack",
})  # fmt: skip
"""Ops that pass a NaN of their input on to their output."""


def find_missing_values(definition: Any, feeds: Sequence[GraphPort]) -> tuple[str, ...]:
    """Return the names of the floating-point ``feeds`` that a GraphDef tests for NaN, or sorts into buckets."""
    names = {node_of(port.tensor): port.spec.name for port in feeds if port.spec.dtype.startswith("float")}
    carried = map_node_inputs((node for node in definition.node if node.op in _CARRIERS), control=False)
    tested = find_reachable(_find_tested(definition.node), carried | {node: [] for node in names})
    return tuple(name for node, name in names.items() if node in tested)


def _find_tested(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the nodes whose first output is tested for NaN."""
    for node in nodes:
        itself = node.op in _COMPARISONS and node.input[0] == node.input[1]
        if node.op in _TESTS or itself:
            yield node_of(node.input[0])
