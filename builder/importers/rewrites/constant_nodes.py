"""The values of tensors, and limits of sizes, that a graph decides whatever is fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.tf import import_tensorflow, load_graph, reference_session, tf
from builder.importers.rewrite import become_constant

Constants = Mapping[int, NDArray[Any]]
"""Arguments of a function that are the same constant in every call, by number."""

SizeLimits = tuple[tuple[int, ...], frozenset[int]]
"""The most of each axis of a shape, and the axes whose size the data decides."""

_PASSED_ON = {"Identity", "Cast"}
_OF_SHAPES = {"Shape", "Size", "Rank"}


def constant_of(tensor: Any, constants: Constants) -> NDArray[Any] | None:
    """Return the tensor's value if nothing that is fed decides it, or None.

    ``constants``: of the function whose graph it is in.
    """
    value = _find_constant(tensor, constants)
    if value is None and tensor.shape.rank == 0:
        least, most = _find_range(tensor, constants)
        value = least if least is not None and most is not None and least == most else None
    return value


def _find_constant(tensor: Any, constants: Constants) -> NDArray[Any] | None:
    from tensorflow.python.framework import tensor_util

    import_tensorflow()
    graph = tensor.graph
    arguments = getattr(graph, "inputs", ())
    for number, argument in enumerate(arguments):
        if argument is tensor:
            return constants.get(number)
    if tensor.dtype in (tf.resource, tf.variant, tf.string):
        return None
    value = tensor_util.constant_value(tensor)
    if value is None and tensor.op.type == "SparseReshape" and tensor is tensor.op.outputs[1]:
        # The shape is decided where the values are not.
        shape, wanted = (constant_of(source, constants) for source in tensor.op.inputs[1:])
        return None if shape is None or wanted is None else resolve_shape(shape, wanted)
    if value is None and tensor.op.type in _PASSED_ON:
        source = _find_constant(tensor.op.inputs[0], constants)
        return None if source is None else source.astype(tensor.dtype.as_numpy_dtype)
    if value is None and not arguments and (nodes := _find_deciding_nodes(tensor)):
        value = _run_nodes(tensor, nodes)
    return None if value is None else np.asarray(value)


def _find_deciding_nodes(tensor: Any) -> list[Any]:
    """Return the nodes that lead to ``tensor`` if they depend on constants alone, or else none.

    The rank or size of a known shape is a constant, whatever has that shape.
    """
    from tensorflow.python.framework import tensor_util

    todo, nodes = [tensor.op], dict[Any, Any]()
    while todo:
        operation = todo.pop()
        if operation in nodes:
            continue
        node = nodes[operation] = operation.node_def
        if operation.type in _OF_SHAPES and (value := tensor_util.constant_value(operation.outputs[0])) is not None:
            become_constant(node, value)
            continue
        if operation.type in ("Placeholder", "VarHandleOp") or operation.op_def.is_stateful:
            return []
        todo += [t.op for t in operation.inputs]
    return list(nodes.values())


def _run_nodes(tensor: Any, nodes: list[Any]) -> Any:
    """Compute ``tensor`` in a graph of these nodes alone: elsewhere may be ops that TensorFlow cannot run."""
    definition = tf.compat.v1.GraphDef()
    definition.node.extend(nodes)
    for node in definition.node:  # The nodes that it waits for are not in this graph.
        node.input[:] = [name for name in node.input if not name.startswith("^")]
    if any(attr.HasField("func") or attr.list.func for node in definition.node for attr in node.attr.values()):
        definition.library.CopyFrom(tensor.graph.as_graph_def().library)
    with reference_session(load_graph(definition)) as session:
        return session.run(tensor.name)


def _find_range(tensor: Any, constants: Constants) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the least and the most that a scalar can be, where known: ``tf.math.bincount`` limits sizes so."""
    operation = tensor.op
    if operation.type in _PASSED_ON and tensor.dtype.is_integer:
        return _find_range(operation.inputs[0], constants)
    if operation.type not in ("Minimum", "Maximum"):
        value = _find_constant(tensor, constants)
        return value, value
    ranges = [_find_range(t, constants) for t in operation.inputs]
    choose = np.minimum if operation.type == "Minimum" else np.maximum
    ends = [[end for end in pair if end is not None] for pair in zip(*ranges, strict=True)]
    # One known end bounds the smaller of two from above, and the greater from below.
    needed = (2, 1) if operation.type == "Minimum" else (1, 2)
    least, most = (
        choose.reduce(pair) if len(pair) >= count else None for pair, count in zip(ends, needed, strict=True)
    )
    return least, most


def resolve_shape(shape: Any, wanted: Any) -> Any:
    """Return ``wanted`` with the size that -1 stands for, for as many elements as ``shape`` has."""
    shape, wanted = np.asarray(shape, np.int64), np.asarray(wanted, np.int64)
    known = max(int(np.prod(wanted[wanted >= 0])), 1)
    return np.where(wanted < 0, int(np.prod(shape)) // known, wanted)


@dataclass(frozen=True)
class RowLimit:
    """A limit of row numbers: each is below ``most``. ``all_there``: each of these occurs, and they are in order."""

    most: int
    all_there: bool = False


def find_row_limit(numbers: Any, constants: Constants) -> RowLimit | None:
    """Return the limit of a vector of row numbers, or of places [values, axes] whose first column they are.

    Returns None if nothing tells. ``constants``: as for ``constant_of``.
    """
    operation = numbers.op
    match operation.type:
        case "Cast" | "Identity":
            return find_row_limit(operation.inputs[0], constants)
        case "StridedSlice" if numbers.shape.rank == 1 and _is_first_column(operation, constants):
            return find_row_limit(operation.inputs[0], constants)
        case "Where" if (size := operation.inputs[0].shape[:1]).is_fully_defined() and size.rank == 1:
            return RowLimit(int(size[0]))
        case "GatherV2" if (axis := constant_of(operation.inputs[2], constants)) is not None and int(axis) == 0:
            limit = find_row_limit(operation.inputs[0], constants)
            return limit and RowLimit(limit.most)
        case "SparseFillEmptyRows" if (shape := constant_of(operation.inputs[2], constants)) is not None:
            return RowLimit(int(shape[0]), all_there=True)
        case "SparseReorder" if (shape := constant_of(operation.inputs[2], constants)) is not None:
            return RowLimit(int(shape[0]))
        case "SparseReshape" if (shape := constant_of(operation.outputs[1], constants)) is not None:
            return RowLimit(int(shape[0]))
    return None


def _is_first_column(operation: Any, constants: Constants) -> bool:
    """Return whether a StridedSlice of a matrix is ``[:, 0]``."""
    begin, end = (constant_of(operation.inputs[number], constants) for number in (1, 2))
    masks = [operation.get_attr(f"{name}_mask") for name in ("begin", "end", "shrink_axis", "ellipsis", "new_axis")]
    if begin is None or end is None or operation.inputs[0].shape.rank != 2:
        return False
    return masks[2:] == [2, 0, 0] and masks[0] & masks[1] & 1 == 1 and begin[1] == 0


def find_size_limits(shape: Any) -> SizeLimits | None:
    """Return the limits of a shape that a graph computes, or None if nothing tells."""
    operation = shape.op
    if operation.type in ("Cast", "Identity"):
        return find_size_limits(operation.inputs[0])
    if operation.type == "CTCGreedyDecoder" and operation.inputs[0].shape.is_fully_defined():
        steps, batch, _ = operation.inputs[0].shape
        return (batch, steps), frozenset({1})
    return None
