"""Paths through a graph that begins with strings, and the replacement of its tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.tf import load_graph, tf
from builder.config.tensor import c_identifier
from builder.importers.loaded import Shape, tensor_name
from builder.importers.lookup_tables import LookupTable
from builder.importers.rewrite import become_constant, copy_message
from builder.importers.variables_state import handle_of


def has_string_tensors(op: Any) -> bool:
    """Return whether an op reads or gives strings, or the handle of a table."""
    return any(tensor.dtype in (tf.string, tf.resource) for tensor in (*op.inputs, *op.outputs))


def find_downstream(ops: Sequence[Any], starts: Collection[Any], past: Collection[Any]) -> set[Any]:
    """Return ``starts`` and the ops that depend on them other than through the ops ``past``."""
    dependents = set(starts)
    for op in ops:  # An op stands after the ops that it reads.
        if op not in past and any(tensor.op in dependents for tensor in op.inputs):
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


def placeholder_of(feed: str) -> str:
    return f"words/{c_identifier(feed)}"


def replace_tensors(graph_def: Any, cuts: Mapping[str, tuple[str, Shape]], sizes: Mapping[Any, NDArray[Any]]) -> Any:
    """Return ``graph_def`` with placeholders in place of the tensors ``cuts``, and constants in place of ``sizes``."""
    result, graph = copy_message(graph_def), load_graph(graph_def)
    moved = {}
    for tensor, (feed, shape) in cuts.items():
        placeholder = result.node.add(name=placeholder_of(feed), op="Placeholder")
        placeholder.attr["dtype"].type = graph.get_tensor_by_name(tensor).dtype.as_datatype_enum
        for dim in shape:
            placeholder.attr["shape"].shape.dim.add(size=dim)
        moved[tensor] = f"{placeholder.name}:0"
    for op, value in sizes.items():
        fixed = result.node.add(name=f"{op.name}/fixed")
        become_constant(fixed, value)
        moved[f"{op.name}:0"] = f"{fixed.name}:0"
    for node in result.node:
        node.input[:] = [t if t.startswith("^") else moved.get(tensor_name(t), t) for t in node.input]
    return result
