"""Ways through a graph that begins with strings, and the graph without them."""

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
    """Whether strings, or the handle of a table, go in or come out."""
    return any(tensor.dtype in (tf.string, tf.resource) for tensor in (*op.inputs, *op.outputs))


def find_downstream(ops: Sequence[Any], starts: Collection[Any], past: Collection[Any]) -> set[Any]:
    """``starts``, and what depends on them, but for the ops ``past`` and what only depends on these."""
    found = set(starts)
    for op in ops:  # after those that they read
        if op not in past and any(tensor.op in found for tensor in op.inputs):
            found.add(op)
    return found


def find_upstream(tensors: Iterable[Any], within: Collection[Any] | None) -> set[Any]:
    """The ops that ``tensors`` are made by, as far as they are ``within``."""
    found, todo = set[Any](), [tensor.op for tensor in tensors]
    while todo:
        op = todo.pop()
        if op not in found and (within is None or op in within):
            found.add(op)
            todo += [tensor.op for tensor in op.inputs]
    return found


def fix_table_sizes(graph_def: Any, tables: Mapping[str, LookupTable]) -> Any:
    """``graph_def`` with the number of a table's keys where it asks for that."""
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        if node.op == "LookupTableSizeV2" and (handle := handle_of(node.input[0], nodes)) in tables:
            become_constant(node, np.int64(len(tables[handle].keys)))
    return graph_def


def placeholder_of(feed: str) -> str:
    return f"words/{c_identifier(feed)}"


def replace_tensors(graph_def: Any, cuts: Mapping[str, tuple[str, Shape]], sizes: Mapping[Any, NDArray[Any]]) -> Any:
    """``graph_def`` with a placeholder in the place of each tensor of ``cuts``, and constants in that of ``sizes``."""
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
