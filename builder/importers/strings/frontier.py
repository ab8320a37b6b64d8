"""Finds the tensors where strings become numbers, at the inputs and at the outputs of a graph.

At the inputs, the frontier is the earliest tensor of numbers that every path from a feed of strings passes, whose shape
does not depend on the strings, and after which XLA compiles every op. At the outputs, it is the tensor of numbers from
which a fetch of strings is made. Shapes are those that TensorFlow computes for different strings, since its shape
inference often gives up. A loop that works on strings (``tf.map_fn``) counts as one op.

Only ops before a frontier run here, and only those that have been admitted (``HOST_OPS``).
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
from builder.importers.strings.string_graph import find_downstream, find_upstream
from builder.importers.xla_ops import is_compiled

IMAGE_OPS = frozenset({
    "DecodeAndCropJpeg", "DecodeBase64", "DecodeBmp", "DecodeGif", "DecodeImage", "DecodeJpeg", "DecodePng",
    "DecodeWebP", "ExtractJpegShape",
})  # fmt: skip
"""Ops that decode an image into pixels."""

HOST_OPS = IMAGE_OPS | {
    "AsString", "Assert", "CropAndResize", "ScaleAndTranslate", "StringJoin", "StringLength", "StringStrip", "Substr",
    "SubstrV2",
}  # fmt: skip
"""Ops on strings that TensorFlow may run to find the ops before the numbers: each gives the same result for the same
strings, and accesses nothing outside of the graph."""

_PASS_ON = {"Identity", "IdentityN"}
"""Ops whose outputs are their inputs."""

_SIZES = {"Shape", "ShapeN", "Size", "Rank"}
"""Ops that depend only on the number of strings, which is fixed in a library."""

_PLUMBING = frozenset(
    {
        "AddV2", "Assert", "Cast", "Const", "ExpandDims", "Identity", "IdentityN", "Less", "LogicalAnd", "NoOp", "Pack",
        "Shape", "Squeeze", "StridedSlice", "TensorListFromTensor", "TensorListGetItem", "TensorListReserve",
        "TensorListSetItem", "TensorListStack", "Unpack",
    }
)  # fmt: skip
"""Ops that do not show how a graph uses its strings."""

_SHOWN = 12
"""The largest number of ops in front of a frontier that a message names."""


@dataclass(frozen=True)
class Frontier:
    """The first tensor of numbers (``tensor``) behind the feed ``feed``.

    ``shape``: its shape in one run. ``ops``: the kinds of ops before it, in the order in which they run, each once.
    """

    feed: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class FunctionFrontier:
    """The frontier in a function: ``tensor``, as the function calls it, its DataType and its constant shape.

    ``behind``: the kinds of ops that depend on it.
    """

    tensor: str
    dtype: Any
    shape: tuple[int, ...]
    behind: frozenset[str]


@dataclass(frozen=True)
class Tail:
    """The integer tensor that a fetch of strings is made of (``tensor``), or None if it depends on no feed.

    ``passed``: whether it is made of strings that are fed, as a key that comes back with the answer.
    """

    fetch: str
    tensor: str | None
    ops: tuple[str, ...]
    passed: bool = False


def find_frontier(
    graph_def: Any, feed: str, source: str, fetches: Sequence[str], probes: Sequence[Any], least: int = 1
) -> Frontier:
    """Return the frontier behind the tensor of strings ``source``, which is the feed ``feed``.

    ``fetches``: tensors of numbers. ``probes``: arrays of strings that the feed takes, as different as possible.
    ``least``: the least size of a frontier. Raises ImportModelError, with the ops in front, if there is none.
    """
    graph = load_graph(graph_def)
    ends = [graph.get_tensor_by_name(name) for name in fetches]
    search = _FrontierSearch(graph_def, graph, source, ends, probes, least)
    order = [op for op in search.way if op.type != "Placeholder"]
    if search.tensor is None:
        raise ImportModelError(_explain_no_frontier(feed, order, search))
    behind = find_downstream(search.way, {search.tensor})
    ops = _list_op_types([op for op in order if op not in behind], graph_def)
    return Frontier(feed, search.tensor.name, search.tensor.dtype.name, search.shapes[search.tensor.name], ops)


def find_inner_frontier(
    graph_def: Any, function: Any, source: str, end: str, probes: Sequence[Any], least: int
) -> FunctionFrontier | None:
    """Return the frontier between two tensors of ``function``, or None; ``source`` is one string.

    ``end``: a tensor as the function calls it. ``probes`` and ``least`` are as for ``find_frontier``.
    """
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    with load_graph(graph_def).as_default():
        definition = function_def_to_graph(function).as_graph_def()
    definition.library.CopyFrom(graph_def.library)
    graph = load_graph(definition)
    op = graph.get_operation_by_name(end.partition(":")[0])
    stop = op.outputs[output_names(op).index(end.partition(":")[2])]
    search = _FrontierSearch(definition, graph, source, [stop], probes, least)
    tensor = search.tensor
    if tensor is None:
        return None
    name = f"{tensor.op.name}:{output_names(tensor.op)[tensor.value_index]}"
    behind = frozenset(node.type for node in find_downstream(search.way, {tensor}) - {tensor})
    return FunctionFrontier(name, tensor.dtype.as_datatype_enum, search.shapes[tensor.name], behind)


class _FrontierSearch:
    """The first tensor of numbers of one shape between ``source`` and ``ends`` (``tensor``), or None.

    ``way``: the ops between them. ``cuts``: the tensors of numbers alone that every path passes, and ``shapes``: the
    shapes of those that have the same for all ``probes``.
    """

    def __init__(
        self, graph_def: Any, graph: Any, source: str, ends: Sequence[Any], probes: Sequence[Any], least: int
    ) -> None:
        start = graph.get_tensor_by_name(source)
        self.string_nodes = _find_string_nodes(graph_def)
        self.way = _find_ops_between(graph, start, ends)
        self.cuts = [
            tensor
            for tensor in _find_cuts(self.way, start, ends)
            if (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool)
            and not any(self.is_on_strings(op) for op in find_downstream(self.way, {tensor}) - {tensor})
        ]
        self.shapes = _find_constant_shapes(graph, source, self.cuts, probes)
        sizes = ((t, np.prod(self.shapes[t.name], dtype=np.int64)) for t in self.cuts if t.name in self.shapes)
        self.tensor = next((tensor for tensor, size in sizes if size >= least), None)

    def is_on_strings(self, op: Any) -> bool:
        """Return whether only TensorFlow itself runs ``op``, or it reads or gives strings."""
        return op.name in self.string_nodes or _has_strings(op)


def find_tail(graph_def: Any, fetch: str, tensor: str) -> Tail:
    """Return the tensor from which the strings of ``tensor``, the fetch ``fetch``, are made.

    Raises ImportModelError if they are made from several tensors, or from one that is not of integers.
    """
    graph = load_graph(graph_def)
    words = _find_string_nodes(graph_def)
    origins: dict[str, Any] = {}
    ops: dict[str, None] = {}
    todo, visited = [graph.get_tensor_by_name(tensor)], set[Any]()
    while todo:
        made_by = (reached := todo.pop()).op
        if reached in visited:
            continue
        visited.add(reached)
        ops[made_by.type] = None
        inputs = made_by.inputs
        if made_by.type in _PASS_ON:
            inputs = inputs[reached.value_index : reached.value_index + 1]
        for source in inputs:
            if _has_strings(source.op) or source.op.name in words:
                todo.append(source)
            elif source.op.type != "Const" and _depends_on_feeds(source):
                origins[source.name] = source
    drawn = " <- ".join(ops)
    if len(origins) > 1:
        raise ImportModelError(
            f"The output {fetch!r} is strings, made of several tensors: {', '.join(sorted(origins))} "
            f"({drawn}). coldforge answers with labels that one number chooses: leave this output out by [[fetches]]."
        )
    origin = next(iter(origins.values()), None)
    if origin is not None and not (origin.dtype.is_integer or origin.dtype.is_bool):
        raise ImportModelError(
            f"The output {fetch!r} is strings, made of {origin.name}, which is {origin.dtype.name} ({drawn}). "
            "coldforge answers with labels that a whole number chooses: leave this output out by [[fetches]]."
        )
    passed = any(op.startswith("Placeholder") for op in ops)
    if passed and origin is not None:
        raise ImportModelError(
            f"The output {fetch!r} is strings, made of strings that are fed ({drawn}): leave it out by [[fetches]]."
        )
    return Tail(fetch, None if origin is None else origin.name, tuple(ops), passed)


def is_read(graph_def: Any, source: str, tensors: Sequence[str]) -> bool:
    """Return whether any of ``tensors`` depends on the contents of the strings ``source``, not only on their number."""
    graph = load_graph(graph_def)
    return bool(
        _find_ops_between(graph, graph.get_tensor_by_name(source), [graph.get_tensor_by_name(t) for t in tensors])
    )


def fix_string_sizes(graph_def: Any, source: str, shape: Sequence[int]) -> Any:
    """Return ``graph_def`` with constants in place of the sizes of the strings ``source``, whose shape is ``shape``."""
    result = copy_message(graph_def)
    same = {source.removesuffix(":0")}
    while new := {n.name for n in result.node if n.op == "Identity" and n.input[0].removesuffix(":0") in same} - same:
        same |= new
    for node in result.node:
        if node.op not in ("Shape", "Size", "Rank") or node.input[0].removesuffix(":0") not in same:
            continue
        dtype = tf.dtypes.as_dtype(node.attr["out_type"].type or 3).as_numpy_dtype
        value = {"Shape": list(shape), "Size": int(np.prod(shape)), "Rank": len(shape)}[node.op]
        become_constant(node, np.array(value, dtype))
    return result


def run_graph(graph: Any, tensors: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
    """Return the values of ``tensors`` of a tf.Graph; ``feeds`` are by tensor. Raises ImportModelError."""
    with reference_session(graph) as session:
        try:
            return list(session.run(list(tensors), dict(feeds)))
        except tf.errors.OpError as error:
            raise ImportModelError(
                f"TensorFlow cannot run what the model does with strings: {describe_error(error.message)}"
            ) from error


def _find_ops_between(graph: Any, start: Any, ends: Sequence[Any]) -> list[Any]:
    """Return the ops on the paths from ``start`` to ``ends`` in the order in which they run, excluding ``start.op``."""
    ops = graph.get_operations()
    same, down = {start}, {start.op}
    for op in ops:
        if op.type == "Identity" and op.inputs[0] in same:
            same.add(op.outputs[0])
    changed = True
    while changed:  # A loop of TensorFlow 1 goes back.
        changed = False
        for op in ops:
            if op in down or (op.type in _SIZES and not same.isdisjoint(op.inputs)):
                continue
            if any(read.op in down and (read.op is not start.op or read is start) for read in op.inputs):
                down.add(op)
                changed = True
    up = find_upstream(ends, None)
    return [op for op in ops if op in down and op in up and op is not start.op]


def _find_cuts(way: Sequence[Any], start: Any, ends: Sequence[Any]) -> Iterator[Any]:
    """Yield the tensors that every path from ``start`` to ``ends`` passes, the earliest first."""
    place = {op: number for number, op in enumerate(way)}
    last: dict[Any, int] = {}
    for op in way:
        for read in op.inputs:
            if read.op in place or read is start:
                last[read] = max(last.get(read, -1), place[op])
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
    """Return whether a path, perhaps through a loop, leads from ``start`` to ``ends`` past the tensor ``without``."""
    on_way, todo, visited = set(way), [end for end in ends if end is not without], set[Any]()
    while todo:
        tensor = todo.pop()
        if tensor is start:
            return True
        if tensor in visited or tensor.op not in on_way:
            continue
        visited.add(tensor)
        todo += [read for read in tensor.op.inputs if read is not without]
    return False


def _find_constant_shapes(
    graph: Any, source: str, tensors: Sequence[Any], probes: Sequence[Any]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of those of ``tensors`` that have the same shape for each of ``probes``."""
    names = [tensor.name for tensor in tensors]
    runs = [map(np.shape, run_graph(graph, names, {source: probe})) for probe in probes] if names else []
    by_name = {name: set(shapes) for name, *shapes in zip(names, *runs, strict=True)}
    return {name: next(iter(shapes)) for name, shapes in by_name.items() if len(shapes) == 1}


def _has_strings(op: Any) -> bool:
    """Return whether an op reads or gives strings."""
    return any(tensor.dtype == tf.string for tensor in (*op.inputs, *op.outputs))


def _depends_on_feeds(tensor: Any) -> bool:
    """Return whether the values of ``tensor``, not only its size, depend on a feed."""
    value_ops = {op for op in tensor.graph.get_operations() if op.type not in _SIZES}
    return any(op.type.startswith("Placeholder") for op in find_upstream([tensor], value_ops))


def _find_string_nodes(graph_def: Any) -> set[str]:
    """Return the names of nodes that only TensorFlow itself runs, and of loops and calls that contain such nodes."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    kinds: dict[str, bool] = {}

    def inside(name: str) -> bool:
        if name not in kinds:
            kinds[name] = False  # This ends the recursion of a function that calls itself.
            kinds[name] = any(tainted(node) for node in functions[name].node_def)
        return kinds[name]

    def tainted(node: Any) -> bool:
        if node.op not in functions and not is_compiled(node.op):
            return True
        return any(inside(name) for name in called_by(node) if name in functions)

    return {node.name for node in graph_def.node if tainted(node)}


def _list_op_types(ops: Iterable[Any], graph_def: Any) -> tuple[str, ...]:
    """Return the kinds of ``ops`` in order, with those inside a loop in the loop's place."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    kinds: dict[str, None] = {}

    def add(op: str, node: Any) -> None:
        called = [name for name in called_by(node) if name in functions]
        for name in called:
            for inner in functions[name].node_def:
                add(inner.op, inner)
        if not called and op not in _PLUMBING:
            kinds[op] = None

    for op in ops:
        add(op.type, op.node_def)
    return tuple(kinds)


def _explain_no_frontier(feed: str, order: Sequence[Any], search: _FrontierSearch) -> str:
    """Return a sentence on why there is no frontier, with the ops in front."""
    names = [f"{op.type}{'*' * search.is_on_strings(op)}" for op in order if op.type not in _PLUMBING]
    rest = [f"... ({len(names) - _SHOWN} more)"] if len(names) > _SHOWN else []
    chain = " -> ".join([*names[:_SHOWN], *rest])
    if not order:
        why = "no output depends on it: leave it out of the signature"
    elif not search.cuts:
        why = "numbers and strings (*) go side by side, and no tensor of numbers has all of it behind it"
    else:
        tensors = ", ".join(tensor.name for tensor in search.cuts[:3])
        why = f"the size of {tensors} depends on the data: resize or pad before the model"
    return (
        f"The input {feed!r} is strings, and what is done with them cannot be cut off: {why}.\n"
        f"  {escape_invisible(feed)} -> {chain}"
    )
