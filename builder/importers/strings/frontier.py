"""Where a graph's strings end and its numbers begin, in front and behind.

In front, the frontier is the earliest tensor of numbers that every path from a feed of strings passes, whose shape is
the same whatever the strings are, and after which there is nothing but what XLA compiles. Behind, it is the tensor of
numbers that a fetch of strings is made of. Shapes are what TensorFlow gives for different strings: its shape inference
gives up too often. A loop that works on strings (``tf.map_fn``) counts as one op.

What runs here is only what stands before a frontier, of ops that have been admitted (``HOST_OPS``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.base.tf import load_graph, reference_session, tf
from builder.importers.rewrite import become_constant, called_by, copy_message, output_names
from builder.importers.strings.string_graph import find_upstream
from builder.importers.xla_ops import is_compiled

PICTURE_OPS = frozenset(
    {
        "DecodeAndCropJpeg",
        "DecodeBase64",
        "DecodeBmp",
        "DecodeGif",
        "DecodeImage",
        "DecodeJpeg",
        "DecodePng",
        "DecodeWebP",
        "ExtractJpegShape",
    }
)
"""Ops that make pixels of an encoded picture."""

HOST_OPS = PICTURE_OPS | {
    "AsString",
    "Assert",
    "CropAndResize",
    "ScaleAndTranslate",
    "StringJoin",
    "StringLength",
    "StringStrip",
    "Substr",
    "SubstrV2",
}
"""Ops on strings that TensorFlow may run to find out what stands before the numbers: each gives the same for the same
strings, and reaches nothing outside of the graph."""

_PASS_ON = {"Identity", "IdentityN"}
"""Ops whose outputs are their inputs."""

_SIZES = {"Shape", "ShapeN", "Size", "Rank"}
"""Ops that tell of strings only how many there are, which is fixed in a library."""

_PLUMBING = frozenset(
    {
        "AddV2", "Assert", "Cast", "Const", "ExpandDims", "Identity", "IdentityN", "Less", "LogicalAnd", "NoOp", "Pack",
        "Shape", "Squeeze", "StridedSlice", "TensorListFromTensor", "TensorListGetItem", "TensorListReserve",
        "TensorListSetItem", "TensorListStack", "Unpack",
    }
)  # fmt: skip
"""Ops that say nothing of what a graph does with its strings."""

_SHOWN = 12
"""Of the ops in front of a frontier, how many a message names."""


@dataclass(frozen=True)
class Frontier:
    """``tensor``: the first of numbers behind the feed ``feed``. ``shape``: of one run.

    ``ops``: what stands before it, in the order in which it runs, each once.
    """

    feed: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class FunctionFrontier:
    """The frontier within a function: ``tensor``, as the function calls it, its DataType, and the same shape always.

    ``behind``: the ops that depend on it.
    """

    tensor: str
    dtype: Any
    shape: tuple[int, ...]
    behind: frozenset[str]


@dataclass(frozen=True)
class Tail:
    """What a fetch of strings is made of: ``tensor``, whole numbers; None where nothing but constants.

    ``passed``: it is made of strings that are fed, as a key that comes back with the answer.
    """

    fetch: str
    tensor: str | None
    ops: tuple[str, ...]
    passed: bool = False


def find_frontier(
    graph_def: Any, feed: str, source: str, fetches: Sequence[str], probes: Sequence[Any], least: int = 1
) -> Frontier:
    """The frontier behind the tensor of strings ``source``, the feed ``feed``; ``fetches``: tensors of numbers.

    ``probes``: arrays of strings that the feed takes, as different as its strings may be. ``least``: how many numbers a
    frontier has at least. Raises ImportModelError, with what stands in front drawn, where there is none.
    """
    graph = load_graph(graph_def)
    start = graph.get_tensor_by_name(source)
    ends = [graph.get_tensor_by_name(name) for name in fetches]
    words = _find_string_nodes(graph_def)
    way = _find_ops_between(graph, start, ends)
    cuts = [tensor for tensor in _find_cuts(graph, way, start, ends) if _is_of_numbers(tensor)]
    cuts = [t for t in cuts if not any(op.name in words or _has_strings(op) for op in _find_dependents(way, t))]
    shapes = _constant_shapes(graph, source, cuts, probes)
    chosen = [t for t in cuts if t.name in shapes and np.prod(shapes[t.name], dtype=np.int64) >= least]
    order = [op for op in way if op.type not in ("Placeholder",)]
    if not chosen:
        raise ImportModelError(_explain_no_frontier(feed, order, words, cuts, shapes))
    tensor = chosen[0]
    before = [op for op in order if op not in _find_dependents(way, tensor)]
    return Frontier(feed, tensor.name, tensor.dtype.name, shapes[tensor.name], _list_op_types(before, graph_def))


def find_inner_frontier(
    graph_def: Any, function: Any, source: str, end: str, probes: Sequence[Any], least: int
) -> FunctionFrontier | None:
    """The frontier between two tensors of ``function``, which belongs to ``graph_def``, ``source`` being one string.

    ``end``: as the function calls it. ``probes``, ``least``: as for ``find_frontier``. None where there is none.
    """
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    with load_graph(graph_def).as_default():
        definition = function_def_to_graph(function).as_graph_def()
    definition.library.CopyFrom(graph_def.library)
    graph = load_graph(definition)
    start, op = graph.get_tensor_by_name(source), graph.get_operation_by_name(end.partition(":")[0])
    stop = op.outputs[output_names(op).index(end.partition(":")[2])]
    words = _find_string_nodes(definition)
    way = _find_ops_between(graph, start, [stop])
    cuts = [tensor for tensor in _find_cuts(graph, way, start, [stop]) if _is_of_numbers(tensor)]
    cuts = [t for t in cuts if not any(one.name in words or _has_strings(one) for one in _find_dependents(way, t))]
    shapes = _constant_shapes(graph, source, cuts, probes)
    tensor = next((t for t in cuts if t.name in shapes and np.prod(shapes[t.name], dtype=np.int64) >= least), None)
    if tensor is None:
        return None
    name = f"{tensor.op.name}:{output_names(tensor.op)[tensor.value_index]}"
    behind = frozenset(one.type for one in _find_dependents(way, tensor))
    return FunctionFrontier(name, tensor.dtype.as_datatype_enum, shapes[tensor.name], behind)


def find_tail(graph_def: Any, fetch: str, tensor: str) -> Tail:
    """What the strings of ``tensor``, the fetch ``fetch``, are made of.

    Raises ImportModelError where that is more than one tensor, or no whole numbers.
    """
    graph = load_graph(graph_def)
    words = _find_string_nodes(graph_def)
    found: dict[str, Any] = {}
    ops: dict[str, None] = {}
    todo, seen = [graph.get_tensor_by_name(tensor)], set[Any]()
    while todo:
        made_by = (here := todo.pop()).op
        if here in seen:
            continue
        seen.add(here)
        ops[made_by.type] = None
        inputs = made_by.inputs[here.value_index : here.value_index + 1] if made_by.type in _PASS_ON else made_by.inputs
        for given in inputs:
            if _has_strings(given.op) or given.op.name in words:
                todo.append(given)
            elif given.op.type != "Const" and _depends_on_feeds(given):
                found[given.name] = given
    drawn = " <- ".join(ops)
    if len(found) > 1:
        raise ImportModelError(
            f"The output {escape_invisible(fetch)!r} is strings, made of several tensors: {', '.join(sorted(found))} "
            f"({drawn}). coldforge answers with labels that one number chooses: leave this output out by [[fetches]]."
        )
    made = next(iter(found.values()), None)
    if made is not None and not (made.dtype.is_integer or made.dtype.is_bool):
        raise ImportModelError(
            f"The output {escape_invisible(fetch)!r} is strings, made of {made.name}, "
            f"which is {made.dtype.name} ({drawn}). "
            "coldforge answers with labels that a whole number chooses: leave this output out by [[fetches]]."
        )
    passed = any(op.startswith("Placeholder") for op in ops)
    if passed and made is not None:
        raise ImportModelError(
            f"The output {escape_invisible(fetch)!r} is strings, made of strings that "
            f"are fed ({drawn}): leave it out by "
            "[[fetches]]."
        )
    return Tail(fetch, None if made is None else made.name, tuple(ops), passed)


def is_read(graph_def: Any, source: str, tensors: Sequence[str]) -> bool:
    """Whether any of ``tensors`` depends on the strings ``source``, beyond how many they are."""
    graph = load_graph(graph_def)
    return bool(
        _find_ops_between(graph, graph.get_tensor_by_name(source), [graph.get_tensor_by_name(t) for t in tensors])
    )


def fix_string_sizes(graph_def: Any, source: str, shape: Sequence[int]) -> Any:
    """``graph_def`` with constants in place of what asks for the size of the strings ``source``, which is ``shape``."""
    result = copy_message(graph_def)
    same = {source.removesuffix(":0")}
    while more := {n.name for n in result.node if n.op == "Identity" and n.input[0].removesuffix(":0") in same} - same:
        same |= more
    for node in result.node:
        if node.op not in ("Shape", "Size", "Rank") or node.input[0].removesuffix(":0") not in same:
            continue
        dtype = tf.dtypes.as_dtype(node.attr["out_type"].type or 3).as_numpy_dtype
        value = {"Shape": list(shape), "Size": int(np.prod(shape)), "Rank": len(shape)}[node.op]
        become_constant(node, np.array(value, dtype))
    return result


def run_graph(graph: Any, tensors: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
    """What TensorFlow gives for ``tensors`` of a tf.Graph; ``feeds``: by tensor. Raises ImportModelError."""
    with reference_session(graph) as session:
        try:
            return list(session.run(list(tensors), dict(feeds)))
        except tf.errors.OpError as error:
            raise ImportModelError(
                f"TensorFlow cannot run what the model does with strings: {describe_error(error.message)}"
            ) from error


def _find_ops_between(graph: Any, start: Any, ends: Sequence[Any]) -> list[Any]:
    """The ops on the ways from ``start`` to ``ends``, in the order in which they run; its own is not among them."""
    ops = graph.get_operations()
    same, down = {start}, {start.op}
    for op in ops:
        if op.type == "Identity" and op.inputs[0] in same:
            same.add(op.outputs[0])
    changed = True
    while changed:  # a loop of TensorFlow 1 goes back
        changed = False
        for op in ops:
            if op in down or (op.type in _SIZES and not same.isdisjoint(op.inputs)):
                continue
            if any(given.op in down and (given.op is not start.op or given is start) for given in op.inputs):
                down.add(op)
                changed = True
    up = find_upstream(ends, None)
    return [op for op in ops if op in down and op in up and op is not start.op]


def _find_cuts(graph: Any, way: Sequence[Any], start: Any, ends: Sequence[Any]) -> Iterator[Any]:
    """The tensors that every path from ``start`` to ``ends`` passes, the earliest first."""
    place = {op: number for number, op in enumerate(way)}
    last: dict[Any, int] = {}
    for op in way:
        for given in op.inputs:
            if given.op in place or given is start:
                last[given] = max(last.get(given, -1), place[op])
    for end in ends:
        last[end] = len(way)
    open_: set[Any] = {start} if start in last else set()
    for number, op in enumerate(way):
        open_ |= {tensor for tensor in op.outputs if last.get(tensor, -1) > number}
        open_ = {tensor for tensor in open_ if last[tensor] > number}
        if len(open_) == 1 and next(iter(open_)) is not start:
            (tensor,) = open_
            if tensor.op is op and not _has_path_around(way, start, ends, tensor):
                yield tensor


def _has_path_around(way: Sequence[Any], start: Any, ends: Sequence[Any], without: Any) -> bool:
    """Whether a path leads from ``start`` to ``ends`` past the tensor ``without``: one of a loop, perhaps."""
    on_way, todo, seen = set(way), [end for end in ends if end is not without], set[Any]()
    while todo:
        tensor = todo.pop()
        if tensor is start:
            return True
        if tensor in seen or tensor.op not in on_way:
            continue
        seen.add(tensor)
        todo += [given for given in tensor.op.inputs if given is not without]
    return False


def _find_dependents(way: Sequence[Any], tensor: Any) -> set[Any]:
    """Those ops of ``way`` that depend on ``tensor``."""
    found: set[Any] = set()
    for op in way:
        if any(given is tensor or given.op in found for given in op.inputs):
            found.add(op)
    return found


def _constant_shapes(
    graph: Any, source: str, tensors: Sequence[Any], probes: Sequence[Any]
) -> dict[str, tuple[int, ...]]:
    """Of those of ``tensors`` that have the same shape for each of ``probes``: that shape."""
    shapes: dict[str, set[tuple[int, ...]]] = {tensor.name: set() for tensor in tensors}
    if tensors:
        for probe in probes:
            for name, value in zip(shapes, run_graph(graph, list(shapes), {source: probe}), strict=True):
                shapes[name].add(np.shape(value))
    return {name: next(iter(found)) for name, found in shapes.items() if len(found) == 1}


def _is_of_numbers(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool)


def _has_strings(op: Any) -> bool:
    """Whether strings go in or come out of an op."""
    return any(tensor.dtype == tf.string for tensor in (*op.inputs, *op.outputs))


def _depends_on_feeds(tensor: Any) -> bool:
    """Whether the values of ``tensor``, not only its size, depend on what is fed."""
    others = {op for op in tensor.graph.get_operations() if op.type not in _SIZES}
    return any(op.type.startswith("Placeholder") for op in find_upstream([tensor], others))


def _find_string_nodes(graph_def: Any) -> set[str]:
    """Names of nodes of ops that only TensorFlow itself runs, and of loops and calls that have such inside."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    known: dict[str, bool] = {}

    def inside(name: str) -> bool:
        if name not in known:
            known[name] = False  # of one that calls itself
            known[name] = any(tainted(node) for node in functions[name].node_def)
        return known[name]

    def tainted(node: Any) -> bool:
        if node.op not in functions and not is_compiled(node.op):
            return True
        return any(inside(name) for name in called_by(node) if name in functions)

    return {node.name for node in graph_def.node if tainted(node)}


def _list_op_types(ops: Iterable[Any], graph_def: Any) -> tuple[str, ...]:
    """The kinds of ``ops`` in order, those inside of loops in the loop's place."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    found: dict[str, None] = {}

    def add(op: str, node: Any) -> None:
        called = [name for name in called_by(node) if name in functions]
        for name in called:
            for inner in functions[name].node_def:
                add(inner.op, inner)
        if not called and op not in _PLUMBING:
            found[op] = None

    for op in ops:
        add(op.type, op.node_def)
    return tuple(found)


def _explain_no_frontier(
    feed: str, order: Sequence[Any], words: set[str], cuts: Sequence[Any], shapes: Mapping[str, tuple[int, ...]]
) -> str:
    """Why there is no frontier, in words, and what stands in front."""
    shown_ops = [op for op in order if op.type not in _PLUMBING]
    names = [f"{op.type}{'*' if op.name in words or _has_strings(op) else ''}" for op in shown_ops]
    shown = " -> ".join(names[:_SHOWN]) + (f" -> ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else "")
    if not order:
        why = "no output depends on it: leave it out of the signature"
    elif not cuts:
        why = "numbers and strings (*) go side by side, and no tensor of numbers has all of it behind it"
    else:
        why = f"the size of {', '.join(t.name for t in cuts[:3])} depends on the data: resize or pad before the model"
    return (
        f"The input {escape_invisible(feed)!r} is strings, and what is done with them cannot be cut off: {why}.\n"
        f"  {escape_invisible(feed)} -> {shown}"
    )
