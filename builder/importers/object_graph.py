"""Variables that a SavedModel restores by their objects, not by its restore op.

Where a ``tf.Module`` tracks a Keras 3 model, the restore op fills copies that no signature reads. What a signature
reads is captured by the function it calls: the object graph says which object each capture is, and the checkpoint has
an object graph of its own, with the key of each object's value. Both are read as data.
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
    """Those of the nodes in ``wanted`` that a function captures and whose value the checkpoint in ``folder`` has.

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
        except (DecodeError, TypeError):  # damaged, or not text at all
            return {}
    places = _match_objects(meta.object_graph_def, saved)
    found: dict[str, SavedVariable] = {}
    for node, number in objects.items():
        attributes = saved.nodes[places[number]].attributes if number in places else ()
        key = next((one.checkpoint_key for one in attributes if one.name == _VALUE), "")
        if key in types:
            found[node] = SavedVariable(key, "", types[key].as_datatype_enum)
    return found


def _find_captures(meta: Any) -> dict[str, int]:
    """The nodes that calls pass to functions as captures, with the numbers of their objects: captures come last."""
    functions = meta.object_graph_def.concrete_functions
    found: dict[str, int] = {}
    for node in meta.graph_def.node:
        given = [tensor for tensor in node.input if not tensor.startswith("^")]
        for called in called_by(node):
            bound = functions[called].bound_inputs if called in functions else ()
            if len(bound) <= len(given):
                found |= {node_of(t): number for t, number in zip(given[len(given) - len(bound) :], bound, strict=True)}
    return found


def _match_objects(graph: Any, saved: Any) -> dict[int, int]:
    """Numbers in ``graph`` to those in ``saved`` of the objects that the same names lead to, from the root on."""
    found: dict[int, int] = {}
    todo = [(0, 0)]
    while todo:
        ours, theirs = todo.pop()
        if ours in found or not (0 <= ours < len(graph.nodes) and 0 <= theirs < len(saved.nodes)):
            continue
        found[ours] = theirs
        named = {child.local_name: child.node_id for child in saved.nodes[theirs].children}
        children = graph.nodes[ours].children
        todo += [(child.node_id, named[child.local_name]) for child in children if child.local_name in named]
    return found
