"""Paths through a graph that begins with strings, the replacement of its tensors, and names of its ops in messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.escape import escape_invisible
from builder.base.tf import load_graph, tf
from builder.config.tensor import c_identifier
from builder.importers.loaded import Shape, tensor_name
from builder.importers.lookup_tables import LookupTable
from builder.importers.rewrite import become_constant, copy_message
from builder.importers.variables_state import handle_of


def has_string_tensors(op: Any) -> bool:
    """Return whether an op reads or gives strings, or the handle of a table."""
    return any(tensor.dtype in (tf.string, tf.resource) for tensor in (*op.inputs, *op.outputs))


def find_downstream(ops: Sequence[Any], starts: Collection[Any], past: Collection[Any] = ()) -> set[Any]:
    """Return ``starts``, which are ops or tensors, and the ops that depend on them other than through ``past``."""
    dependents = set(starts)
    for op in ops:  # An op stands after the ops that it reads.
        if op not in past and any(tensor in dependents or tensor.op in dependents for tensor in op.inputs):
            dependents.add(op)
    return dependents


def find_upstream(tensors: Iterable[Any], within: Collection[Any] | None) -> set[Any]:
    """Return the ops in ``within`` (None: all) that ``tensors`` depend on through such ops."""
    ancestors, todo = set[Any](), [tensor.op for tensor in tensors]
    while todo:
        op = todo.pop()
        if op not in ancestors and (within is None or op in within):
            ancestors.add(op)
            todo += [tensor.op for tensor in op.inputs]
    return ancestors


def fix_table_sizes(graph_def: Any, tables: Mapping[str, LookupTable]) -> Any:
    """Return ``graph_def`` with constants for the numbers of keys in the tables."""
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        if node.op == "LookupTableSizeV2" and (handle := handle_of(node.input[0], nodes)) in tables:
            become_constant(node, np.int64(len(tables[handle].keys)))
    return graph_def


def describe_op(op: Any) -> str:
    """Return the kind and name of an op, for a message."""
    return escape_invisible(f"{op.type} ({op.name})")


def add_placeholder(graph_def: Any, name: str, dtype: Any, shape: Sequence[int | None]) -> str:
    """Add a placeholder of a DType to ``graph_def``, in place, and return its tensor."""
    placeholder = graph_def.node.add(name=name, op="Placeholder")
    placeholder.attr["dtype"].type = dtype.as_datatype_enum
    placeholder.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return f"{name}:0"


def redirect_inputs(graph_def: Any, moved: Mapping[str, str]) -> None:
    """Make the nodes of ``graph_def`` read the values of ``moved`` in place of its keys, both tensors, in place."""
    for node in graph_def.node:
        node.input[:] = [t if t.startswith("^") else moved.get(tensor_name(t), t) for t in node.input]


def placeholder_of(feed: str) -> str:
    """Return the name of the placeholder for a feed of numbers in place of strings."""
    return f"words/{c_identifier(feed)}"


def replace_tensors(graph_def: Any, cuts: Mapping[str, tuple[str, Shape]], sizes: Mapping[Any, NDArray[Any]]) -> Any:
    """Return ``graph_def`` with placeholders in place of the tensors ``cuts``, and constants in place of ``sizes``."""
    result, graph = copy_message(graph_def), load_graph(graph_def)
    moved = {}
    for tensor, (feed, shape) in cuts.items():
        dtype = graph.get_tensor_by_name(tensor).dtype
        moved[tensor] = add_placeholder(result, placeholder_of(feed), dtype, shape)
    for op, value in sizes.items():
        fixed = result.node.add(name=f"{op.name}/fixed")
        become_constant(fixed, value)
        moved[f"{op.name}:0"] = f"{fixed.name}:0"
    redirect_inputs(result, moved)
    return result
