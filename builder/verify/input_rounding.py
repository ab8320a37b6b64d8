"""Rounding of a graph's inputs and constants, to whole numbers or half precision, before anything reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.base.tf import dtype_name
from builder.config import WeightType
from builder.importers.graph import FrozenGraph
from builder.importers.rewrite import called_by, find_reachable, node_of

WHOLE = "whole"
HALVES: tuple[WeightType, ...] = ("bfloat16", "float16")
"""The half-precision types, the narrowest first."""

_MOVING = {
    "ConcatV2", "ExpandDims", "Identity", "Pack", "Reshape", "Slice", "Squeeze", "StridedSlice", "Tile", "Transpose",
}  # fmt: skip
"""Ops that pass numbers on as they are."""

_INDIFFERENT = {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "Shape", "bool"}
"""Ops that accept whole numbers but do not require them."""


def read_types(nodes: Sequence[Any], library: Any) -> dict[str, str]:
    """Find the Const and Placeholder nodes that the graph reads as another type: WHOLE, or one of HALVES.

    ``nodes``: the nodes of a GraphDef or of one of its functions; ``library``: the GraphDef's library.
    """
    bodies = {function.signature.name: function.node_def for function in library.function}
    passed_on: dict[str, list[str]] = {node.name: [] for node in nodes}
    readings: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for source in {node_of(tensor) for tensor in node.input if not tensor.startswith("^")}:
            if node.op in _MOVING:
                passed_on.setdefault(source, []).append(node.name)
            else:
                readings[source].update(_list_readings(node, bodies))
    types = {}
    for node in nodes:
        if node.op in ("Const", "Placeholder"):
            own = set().union(*(readings[name] for name in find_reachable([node.name], passed_on)))
            types[node.name] = _classify_readings(dtype_name(node.attr["dtype"].type), own)
    return {name: kind for name, kind in types.items() if kind}


@dataclass(frozen=True)
class Reading:
    """The types in which a graph reads its numbers.

    ``feeds``: WHOLE, or one of HALVES, by the names of the floating-point feeds that are read so. ``narrowest``: the
    narrowest floating-point type in which it reads a feed or a constant. ``ops``: all ops of the graph.
    """

    feeds: Mapping[str, str]
    narrowest: WeightType
    ops: frozenset[str]


def read_graph(graph: FrozenGraph, definition: Any) -> Reading:
    """Return the types in which ``definition``, the reference of ``graph``, reads its numbers."""
    top = read_types(definition.node, definition.library)
    inner = (read_types(function.node_def, definition.library) for function in definition.library.function)
    types = {kind for kinds in (top, *inner) for kind in kinds.values()}
    feeds = {p.spec.name: top.get(node_of(p.tensor), "") for p in graph.feeds if p.spec.dtype.startswith("float")}
    narrowest: WeightType = next((half for half in HALVES if half in types), "float32")
    return Reading(feeds, narrowest, frozenset(node.op for node in definition.node))


def _list_readings(node: Any, bodies: Mapping[str, Iterable[Any]]) -> Iterator[str]:
    """Yield the types that ``node`` casts its inputs to, in loops too, or the op that computes with them."""
    if node.op == "Cast":
        yield dtype_name(node.attr["DstT"].type)
        return
    yield node.op
    for called in called_by(node):
        yield from (dtype_name(n.attr["DstT"].type) for n in bodies.get(called, ()) if n.op == "Cast")


def _classify_readings(own: str, readings: set[str]) -> str:
    """Return WHOLE, one of HALVES, or nothing for numbers of the type ``own``; halves may just be stored."""
    asking = readings - _INDIFFERENT
    for half in HALVES:
        if half in asking or (half == own and asking - {"float32", "float64"}):
            return half
    return WHOLE if asking and all(reading.startswith(("int", "uint")) for reading in asking) else ""
