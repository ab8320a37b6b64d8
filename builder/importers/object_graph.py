"""Variables that a SavedModel restores by their objects, not by its restore op.

Where a ``tf.Module`` tracks a Keras 3 model, the restore op fills copies that no signature reads. The function that a
signature calls captures its variables: the object graph has the object of each capture, and the checkpoint's own object
graph has the key of each object's value. Both are read as data.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

from builder.base.tf import import_tensorflow
from builder.importers.checkpoint import SavedVariable, open_checkpoint
from builder.importers.rewrite import called_by, node_of

_VALUE = "VARIABLE_VALUE"


def find_captured_variables(meta: Any, folder: Path, wanted: Set[str]) -> dict[str, SavedVariable]:
    """Find the nodes in ``wanted`` that a function captures and whose values are in the checkpoint in ``folder``.

    Raises ImportModelError where the checkpoint cannot be read.
    """
    objects = {node: number for node, number in _find_captures(meta).items() if node in wanted}
    if not objects:
        return {}
    import_tensorflow()
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph
    from tensorflow.python.trackable.base import OBJECT_GRAPH_PROTO_KEY

    with open_checkpoint(folder) as reader:
        types = reader.get_variable_to_dtype_map()
        if OBJECT_GRAPH_PROTO_KEY not in types:
            return {}
        try:
            saved = TrackableObjectGraph.FromString(reader.get_tensor(OBJECT_GRAPH_PROTO_KEY))
        except (DecodeError, TypeError):  # It is damaged, or not a string.
            return {}
    places = _match_objects(meta.object_graph_def, saved)
    variables: dict[str, SavedVariable] = {}
    for node, number in objects.items():
        attributes = saved.nodes[places[number]].attributes if number in places else ()
        key = next((attribute.checkpoint_key for attribute in attributes if attribute.name == _VALUE), "")
        if key in types:
            variables[node] = SavedVariable(key, "", types[key].as_datatype_enum)
    return variables


def _find_captures(meta: Any) -> dict[str, int]:
    """Find the nodes that calls pass to functions as captures, their last inputs, and their objects' numbers."""
    functions = meta.object_graph_def.concrete_functions
    nodes: dict[str, int] = {}
    for node in meta.graph_def.node:
        args = [tensor for tensor in node.input if not tensor.startswith("^")]
        for called in called_by(node):
            bound = functions[called].bound_inputs if called in functions else ()
            if len(bound) <= len(args):
                nodes |= {node_of(t): number for t, number in zip(args[len(args) - len(bound) :], bound, strict=True)}
    return nodes


def _match_objects(graph: Any, saved: Any) -> dict[int, int]:
    """Map the numbers in ``graph`` to those in ``saved`` of the objects with the same path from the root."""
    matches: dict[int, int] = {}
    todo = [(0, 0)]
    while todo:
        ours, theirs = todo.pop()
        if ours in matches or not (0 <= ours < len(graph.nodes) and 0 <= theirs < len(saved.nodes)):
            continue
        matches[ours] = theirs
        named = {child.local_name: child.node_id for child in saved.nodes[theirs].children}
        children = graph.nodes[ours].children
        todo += [(child.node_id, named[child.local_name]) for child in children if child.local_name in named]
    return matches
