"""Variables of a SavedModel, read from its checkpoint without running anything from the model.

A MetaGraph restores itself: its restore op runs ``RestoreV2`` with names from the checkpoint and assigns the results.
That part of the graph is read here as data; it says which variable has which name. Init ops never run.

Where a ``tf.Module`` tracks a Keras 3 model, the restore op fills copies that no signature reads. The function that a
signature calls captures its variables: the object graph has the object of each capture, and the checkpoint's own object
graph has the key of each object's value. Both are read as data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.base.tf import import_tensorflow, tf
from builder.importers.rewrite import called_by, node_of, output_number

_SAME = {"Identity", "IdentityN", "EnsureShape", "StopGradient"}
_ASSIGNS = {"Assign", "AssignVariableOp"}
_DEEPEST, _LONGEST, _MOST = 50, 1000, 10_000_000
"""Limits for a restore op: the depth of calls, nodes in a row that only pass a tensor on, and all nodes."""


@dataclass(frozen=True)
class SavedVariable:
    """The place of a variable's value: the name in the checkpoint, the slice of that tensor, and the DataType."""

    name: str
    part: str
    dtype: int


@dataclass(frozen=True)
class _NodeScope:
    """The nodes of the graph or of one function call, whose ``arguments`` are tensors of the calling scope."""

    nodes: Mapping[str, Any]
    arguments: Mapping[str, tuple[_NodeScope, str]]
    depth: int = 0

    def find_node(self, tensor: str) -> tuple[_NodeScope, Any, int] | None:
        """Return the node that computes ``tensor`` and its output's number, past nodes that only pass it on."""
        scope, name = self, node_of(tensor)
        for _ in range(_LONGEST):
            number = output_number(tensor)
            if name in scope.arguments:
                scope, tensor = scope.arguments[name]
            elif name in scope.nodes and scope.nodes[name].op in _SAME:
                tensor = scope.nodes[name].input[number]
            else:
                return (scope, scope.nodes[name], number) if name in scope.nodes else None
            name = node_of(tensor)
        return None


def find_saved_variables(meta: Any) -> dict[str, SavedVariable]:
    """Map variables' nodes in the MetaGraph ``meta`` to the values that its restore op would give them."""
    restore = meta.saver_def.restore_op_name
    if not restore:
        return {}
    nodes = {node.name: node for node in meta.graph_def.node}
    functions = {f.signature.name: f for f in meta.graph_def.library.function}
    top = _NodeScope(nodes, {})
    variables: dict[str, SavedVariable] = {}
    for scope, node in itertools.islice(_iterate_executed(top, [node_of(restore)], functions), _MOST):
        if node.op in _ASSIGNS and len(node.input) >= 2:
            target, value = scope.find_node(node.input[0]), scope.find_node(node.input[1])
            saved = _parse_restore(value) if value else None
            if target and target[0] is top and saved:
                variables[target[1].name] = saved
    return variables


def _iterate_executed(
    scope: _NodeScope, names: Iterable[str], functions: Mapping[str, Any]
) -> Iterator[tuple[_NodeScope, Any]]:
    """Yield every node that runs when ``names`` do, including those in called functions."""
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name in seen or name not in scope.nodes:
            continue
        seen.add(name)
        node = scope.nodes[name]
        todo += [node_of(tensor) for tensor in node.input]
        yield scope, node
        for called in called_by(node):
            if called in functions and scope.depth < _DEEPEST:
                function = functions[called]
                inputs = [tensor for tensor in node.input if not tensor.startswith("^")]
                arguments = {
                    argument.name: (scope, tensor)
                    for argument, tensor in zip(function.signature.input_arg, inputs, strict=False)
                }
                callee = _NodeScope({n.name: n for n in function.node_def}, arguments, scope.depth + 1)
                yield from _iterate_executed(callee, list(callee.nodes), functions)


def _parse_restore(value: tuple[_NodeScope, Any, int]) -> SavedVariable | None:
    scope, node, number = value
    if node.op != "RestoreV2" or len(node.input) < 3:
        return None
    name, part = (_read_text(scope.find_node(tensor), number) for tensor in node.input[1:3])
    types = node.attr["dtypes"].list.type
    if name is None or part is None or number >= len(types):
        return None
    return SavedVariable(name, part, types[number])


def _read_text(constant: tuple[_NodeScope, Any, int] | None, number: int) -> str | None:
    """Read one text of a constant without its others, of which there may be thousands."""
    texts = constant[1].attr["value"].tensor.string_val if constant and constant[1].op == "Const" else ()
    return texts[number].decode(errors="replace") if number < len(texts) else None


def read_checkpoint(folder: Path, wanted: Mapping[str, SavedVariable]) -> dict[str, NDArray[Any]]:
    """Return the values of variables, by node, from the checkpoint of the SavedModel in ``folder``.

    Raises ImportModelError where the checkpoint cannot be read or declares more than its files hold.
    """
    if not wanted:
        return {}
    with open_checkpoint(folder):
        return {
            node: np.asarray(
                tf.raw_ops.RestoreV2(
                    prefix=str(_prefix(folder)),
                    tensor_names=[saved.name],
                    shape_and_slices=[saved.part],
                    dtypes=[saved.dtype],
                )[0]
            )
            for node, saved in wanted.items()
        }


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[Any]:
    """Open the checkpoint of the SavedModel in ``folder`` and yield its reader.

    Raises ImportModelError where it cannot be read, also inside the block, or declares more than its files hold.
    """
    prefix = _prefix(folder)
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        _require_sizes(prefix, reader)
        yield reader
    except (ValueError, tf.errors.OpError) as error:
        raise ImportModelError(
            f"The variables of {escape_invisible(folder.name)} cannot be read: {describe_error(error)}"
        ) from error


def _prefix(folder: Path) -> Path:
    return folder / "variables" / "variables"


def _require_sizes(prefix: Path, reader: Any) -> None:
    """Raise ImportModelError if a checkpoint declares more than its files hold, for which memory would be taken."""
    types = reader.get_variable_to_dtype_map()
    declared = {
        name: math.prod(shape) * max(types[name].size or 1, 1)
        for name, shape in reader.get_variable_to_shape_map().items()
    }
    stored = sum(file.stat().st_size for file in prefix.parent.glob(f"{prefix.name}.data-*"))
    if sum(declared.values()) > stored:
        model, name = prefix.parent.parent.name, max(declared, key=lambda each: declared[each])
        raise ImportModelError(
            f"The checkpoint of {escape_invisible(model)} declares {sum(declared.values()):,} bytes of variables (the "
            f"largest: {escape_invisible(name)}, {declared[name]:,}), and its files have {stored:,}: it is damaged. "
            "Save the model again."
        )


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
