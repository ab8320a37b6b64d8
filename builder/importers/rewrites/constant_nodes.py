"""Find the tensors of a graph that have one value whatever is fed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.tf import import_tensorflow, load_graph, reference_session, tf
from builder.importers.rewrite import become_constant

Constants = Mapping[int, NDArray[Any]]
"""Arguments of a function that are the same constant in every call, by number."""

_PASSED_ON = {"Identity", "Cast"}
_OF_SHAPES = {"Shape", "Size", "Rank"}


def constant_of(tensor: Any, constants: Constants) -> NDArray[Any] | None:
    """The tensor's value, if nothing that is fed decides it. ``constants``: of the function whose graph it is in."""
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
        shape, wanted = (constant_of(given, constants) for given in tensor.op.inputs[1:])
        return None if shape is None or wanted is None else resolve_shape(shape, wanted)
    if value is None and tensor.op.type in _PASSED_ON:
        source = _find_constant(tensor.op.inputs[0], constants)
        return None if source is None else source.astype(tensor.dtype.as_numpy_dtype)
    if value is None and not arguments and (nodes := _find_deciding_nodes(tensor)):
        value = _run_nodes(tensor, nodes)
    return None if value is None else np.asarray(value)


def _find_deciding_nodes(tensor: Any) -> list[Any]:
    """The nodes that lead to ``tensor``, if those are constants and what is made of them; none if not.

    What is asked of a shape that is known is a constant, whatever has that shape.
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
    """``tensor``, by a graph that has only what leads to it: elsewhere there may be ops that TensorFlow cannot run."""
    definition = tf.compat.v1.GraphDef()
    definition.node.extend(nodes)
    for node in definition.node:  # what orders it is not here, and constants wait for nothing
        node.input[:] = [name for name in node.input if not name.startswith("^")]
    if any(attr.HasField("func") or attr.list.func for node in definition.node for attr in node.attr.values()):
        definition.library.CopyFrom(tensor.graph.as_graph_def().library)
    with reference_session(load_graph(definition)) as session:
        return session.run(tensor.name)


def _find_range(tensor: Any, constants: Constants) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """The least and the most that a scalar can be, as far as they show: ``tf.math.bincount`` holds sizes so."""
    operation = tensor.op
    if operation.type in _PASSED_ON and tensor.dtype.is_integer:
        return _find_range(operation.inputs[0], constants)
    if operation.type not in ("Minimum", "Maximum"):
        value = _find_constant(tensor, constants)
        return value, value
    ranges = [_find_range(t, constants) for t in operation.inputs]
    choose = np.minimum if operation.type == "Minimum" else np.maximum
    ends = [[end for end in found if end is not None] for found in zip(*ranges, strict=True)]
    # One known end bounds the smaller of two from above, and the greater from below.
    needed = (2, 1) if operation.type == "Minimum" else (1, 2)
    least, most = (
        choose.reduce(found) if len(found) >= count else None for found, count in zip(ends, needed, strict=True)
    )
    return least, most


def resolve_shape(shape: Any, wanted: Any) -> Any:
    """``wanted`` with the size that -1 stands for, for as many elements as ``shape`` has."""
    shape, wanted = np.asarray(shape, np.int64), np.asarray(wanted, np.int64)
    known = max(int(np.prod(wanted[wanted >= 0])), 1)
    return np.where(wanted < 0, int(np.prod(shape)) // known, wanted)
