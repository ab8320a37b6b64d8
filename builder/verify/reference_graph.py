"""Reference graph of a model in TensorFlow: how it reads its numbers, changed copies of it, and intermediate values.

A graph may round inputs and constants to whole numbers or half precision before anything reads them. Changed graphs
show how exact TensorFlow's own answers are: float64 gives nearly the true answer, and if equal scores are moved apart,
each order that an unstable sort may give them shows, of which TensorFlow's is one.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.tf import dtype_name, is_large_weight, load_graph, reference_session, take_constants, tf
from builder.config import WeightType
from builder.importers.graph import MODEL_SCOPE, FrozenGraph
from builder.importers.rewrite import all_nodes, called_by, copy_message, find_reachable, node_of, replace_by_function
from builder.importers.variables_state import assign_variables

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


_ALIGNMENT = 64
"""TensorFlow copies what it is fed at other addresses."""


@dataclass(frozen=True)
class ReferenceGraph:
    """A graph for TensorFlow to run: a GraphDef with placeholders for its large ``weights``, by tensor, to be fed.

    A session holds each constant of its graph several times over, and nothing of what it is fed.
    """

    definition: Any
    weights: Mapping[str, Array]

    @classmethod
    def from_definition(cls, definition: Any) -> ReferenceGraph:
        """Take the large floating-point constants out of ``definition``, which is not changed."""
        small, nodes = take_constants(definition, is_large_weight)
        values = ((name, tf.make_ndarray(node.attr["value"].tensor)) for name, node in nodes.items())
        return cls(small, {f"{name}:0": _align_array(value) for name, value in values})

    @classmethod
    def read(cls, graph: FrozenGraph) -> ReferenceGraph:
        """Read the reference of ``graph``."""
        return cls.from_definition(graph.read_reference())

    def replace_weights(self, definition: Any, replace: Callable[[str, Array], Array]) -> ReferenceGraph:
        """Return ``definition`` with each weight as ``replace`` makes it of its node's name and its value."""
        return ReferenceGraph(
            definition, {t: _align_array(replace(node_of(t), value)) for t, value in self.weights.items()}
        )

    def make_feed(self, graph: FrozenGraph, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return what a session is fed, by tensor: ``feeds`` of ``graph``, whose reference this is, and the weights."""
        return {**{port.tensor: feeds[port.spec.name] for port in graph.feeds}, **self.weights}


def _align_array(values: Array) -> Array:
    """Copy ``values`` to an address that TensorFlow can read from."""
    space = np.empty(values.nbytes + _ALIGNMENT, np.uint8)
    start = -space.ctypes.data % _ALIGNMENT
    aligned: Array = space[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    aligned[...] = values
    return aligned


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


LARGEST = 500_000_000
"""Limit in bytes of a graph that is worth a copy of twice the size; a GraphDef holds 2 GB."""

_OTHER_NUMBERS = ("Random", "Bitcast", "Multinomial", "NextAfter", "XlaCallModule")
"""Parts of the names of ops whose answer differs in float64, or that have their type inside."""


def convert_to_float64(reference: ReferenceGraph) -> ReferenceGraph | None:
    """Return ``reference`` with float64 in place of float32 and complex128 in place of complex64.

    Return None if that would be another function. If TensorFlow lacks a kernel, it still refuses to load or to run it.
    """
    definition = copy_message(reference.definition)
    nodes = list(all_nodes(definition))
    size = definition.ByteSize() + sum(value.nbytes for value in reference.weights.values())
    if any(part in node.op for node in nodes for part in _OTHER_NUMBERS) or size > LARGEST:
        return None
    wider = {tf.float32.as_datatype_enum: tf.float64, tf.complex64.as_datatype_enum: tf.complex128}
    enums = {narrow: wide.as_datatype_enum for narrow, wide in wider.items()}
    for node in nodes:
        for attribute in node.attr.values():
            kind = attribute.WhichOneof("value")
            if kind == "type":
                attribute.type = enums.get(attribute.type, attribute.type)
            elif kind == "tensor" and attribute.tensor.dtype in wider:
                wide = wider[attribute.tensor.dtype].as_numpy_dtype
                attribute.tensor.CopyFrom(tf.make_tensor_proto(tf.make_ndarray(attribute.tensor).astype(wide)))
            elif kind == "list":
                attribute.list.type[:] = [enums.get(enum, enum) for enum in attribute.list.type]
    for function in definition.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = enums.get(argument.type, argument.type)
    return reference.replace_weights(
        definition, lambda _, value: value.astype("f8") if value.dtype == np.float32 else value
    )


UNSTABLE = "CombinedNonMaxSuppression"
"""TensorFlow's op that sorts by ``std::sort``."""

_SCORES = 1
"""Number of the input that has the scores to sort by."""


def break_ties(reference: ReferenceGraph, *, first: bool) -> ReferenceGraph:
    """Return ``reference`` with equal scores moved apart in the last place, for each UNSTABLE op at the top.

    ``first``: the first of several equal ones stays the greatest; else the last does.
    """
    floats, definition = [tf.float32], copy_message(reference.definition)
    for number, node in enumerate([node for node in definition.node if node.op == UNSTABLE]):
        apart = definition.node.add(name=f"{node.name}/ties")
        name, scores = f"break_ties_{number}", [node.input[_SCORES]]
        replace_by_function(
            apart, name, definition.library, lambda values: _move_apart(values, first), scores, floats, floats
        )
        node.input[_SCORES] = apart.name
    return ReferenceGraph(definition, reference.weights)


def _move_apart(scores: Any, first: bool) -> Any:
    """Lower those of ``scores`` that are equal to others by 0, 1, 2, ... units in the last place."""
    flat = tf.reshape(scores, [-1])
    order = tf.argsort(flat if first else tf.reverse(flat, [0]), stable=True)
    places = order if first else tf.size(flat) - 1 - order
    ordered = tf.gather(flat, places)
    rank = tf.range(tf.size(flat)) - tf.searchsorted(ordered, ordered)
    step = tf.where(tf.math.is_finite(ordered), tf.maximum(tf.abs(ordered) * 2.0**-23, 1e-30), 0.0)
    lower = ordered - tf.cast(rank, scores.dtype) * step
    return tf.reshape(tf.scatter_nd(places[:, None], lower, tf.shape(flat)), tf.shape(scores))


def compute_inner_values(
    graph: FrozenGraph, reference: ReferenceGraph, feeds: Mapping[str, Array], ops: Collection[str]
) -> dict[str, Array]:
    """Return the first output of each of ``ops`` that is at the top of ``reference`` and has numbers.

    ``reference``: that of ``graph``, perhaps with other constants. Variables have their first values.
    """
    loaded = load_graph(reference.definition)
    with reference_session(loaded) as session:
        assign_variables(loaded, session, graph.first_state())
        tensors = {op.name: op.outputs[0] for op in loaded.get_operations() if op.name in set(ops) and op.outputs}
        wanted = {
            name: tensor for name, tensor in tensors.items() if tensor.dtype.is_floating or tensor.dtype.is_integer
        }
        values = session.run(wanted, reference.make_feed(graph, feeds))
    return {name: np.asarray(value) for name, value in values.items() if np.asarray(value).dtype.kind in "iuf"}


_AT_NAN = ("MaxPool3D", "TopKV2", "UnsortedSegmentMax", "UnsortedSegmentMin")
_AT_INFINITIES_TOO = (
    "Cast to int16", "Cast to int8", "Cast to uint16", "Cast to uint8", "Dilation2D", "MaxPool", "ResizeArea",
    "ResizeBicubic", "ResizeBilinear", "ScaleAndTranslate", "SegmentMax", "SegmentMin",
)  # fmt: skip
UNLIKE: Mapping[str, Callable[[Array], Array]] = {
    **dict.fromkeys(_AT_NAN, np.isnan), **dict.fromkeys(_AT_INFINITIES_TOO, lambda x: ~np.isfinite(x)),
}  # fmt: skip
"""Ops, and the elements of their first input that they answer in another way: docs/conformance.md shows it."""


def find_unlike_ops(graph: FrozenGraph, reference: ReferenceGraph, calls: Iterable[Mapping[str, Array]]) -> list[str]:
    """Return ``name (type)`` of each op of ``UNLIKE`` outside functions that such elements reach in ``calls``."""
    loaded, reached = load_graph(reference.definition), set[str]()
    ops = [op for op in loaded.get_operations() if read_type(op) in UNLIKE and op.inputs[0].dtype.is_floating]
    with reference_session(loaded) as session:
        assign_variables(loaded, session, graph.first_state())
        for feeds in calls:
            with contextlib.suppress(tf.errors.OpError):  # TensorFlow has no answer to differ from
                fed = reference.make_feed(graph, feeds)
                for op, value in zip(ops, session.run([op.inputs[0] for op in ops], fed), strict=True):
                    if UNLIKE[read_type(op)](np.asarray(value, np.float64)).any():
                        reached.add(f"{op.name.removeprefix(MODEL_SCOPE)} ({read_type(op)})")
    return sorted(reached)


def read_type(op: Any) -> str:
    """Return the type of a tf.Operation; that of a Cast includes its target."""
    return f"Cast to {op.outputs[0].dtype.name}" if op.type == "Cast" else str(op.type)
