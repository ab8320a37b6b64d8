"""Rewrite every node of a graph that has a rewrite, those inside functions, loops and branches included.

A node becomes a call of a function that holds what stands for it, so it keeps its name and its readers at every
level. A function that is called with inputs of different shapes becomes one function for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.base.tf import load_graph, tf
from builder.importers.rewrite import (
    all_nodes,
    become_call,
    called_by,
    copy_message,
    find_functions_with,
    output_names,
    rename_calls,
    rename_nodes,
    source_of,
)
from builder.importers.rewrites import rewrite_of
from builder.importers.rewrites.constant_nodes import Constants, constant_of
from builder.importers.rewrites.op import ANY_ROWS, NotRewritten, Op, Rewrite

_BRANCHING = {"If", "StatelessIf", "Case", "StatelessCase"}
_LOOPS = {"While", "StatelessWhile"}

Refused = tuple[str, str, str]
"""A node that could not be rewritten: its path, its op, and why, in words."""

Choose = Callable[[Any], Rewrite | None]
"""The rewrite of a node, if it has one."""


@dataclass(frozen=True)
class Rewritten:
    """``definition``: with calls in the place of ops, if any ``changed``. ``refused``: nodes that had to stay."""

    definition: Any
    changed: bool
    refused: tuple[Refused, ...]


def needs_rewriting(definition: Any, choose: Choose = rewrite_of) -> bool:
    """Return whether any node of a GraphDef has a rewrite."""
    return any(map(choose, all_nodes(definition)))


def rewrite_ops(definition: Any, choose: Choose = rewrite_of) -> Rewritten:
    """Rewrite the nodes for which ``choose`` has a rewrite in a copy of a GraphDef, whose feeds have static shapes."""
    result, graph = copy_message(definition), load_graph(definition)
    rewriter = _Rewriter(result, graph, choose)
    rewriter.rewrite_nodes(result.node, graph, {}, "")
    result.library.function.extend(rewriter.made)
    return Rewritten(result, rewriter.changed, tuple(rewriter.refused))


class _Rewriter:
    """``made``: functions that the rewritten nodes call. ``changed`` and ``refused``: as in Rewritten."""

    def __init__(self, definition: Any, graph: Any, choose: Choose) -> None:
        self.choose = choose
        self.graph = graph
        self.functions = {f.signature.name: f for f in definition.library.function}
        self.made: list[Any] = []
        self.changed = False
        self.refused: list[Refused] = []
        self._concerned = find_functions_with(definition, lambda node: choose(node) is not None)

    def rewrite_nodes(self, nodes: Any, graph: Any, constants: Constants, prefix: str) -> dict[str, str]:
        """Rewrite ``nodes``, which ``graph`` has as operations; return the new names of tensors that functions rename.

        ``constants``: of the arguments of ``graph``, where that is a function's.
        """
        renamed: dict[str, str] = {}
        for node in nodes:
            path = prefix + node.name
            if rewrite := self.choose(node):
                renamed |= self._rewrite_node(node, rewrite, graph.get_operation_by_name(node.name), constants, path)
            elif not self._concerned.isdisjoint(called_by(node)):
                self._rewrite_call(node, graph.get_operation_by_name(node.name), constants, path)
        return renamed

    def _rewrite_node(
        self, node: Any, rewrite: Rewrite, operation: Any, constants: Constants, path: str
    ) -> dict[str, str]:
        try:
            functions = _trace_rewrite(rewrite, Op(operation, constants))
        except _LeftAsItIs:
            return {}
        except NotRewritten as error:
            self.refused.append((path, node.op, str(error)))
            return {}
        self.changed = True
        name = f"rewritten_{len(self.made)}"
        self._add_functions(functions, name)
        become_call(node, name, node.input, [t.dtype for t in operation.inputs], [t.dtype for t in operation.outputs])
        return {f"{node.name}:{old}": f"{node.name}:output:{i}" for i, old in enumerate(output_names(operation))}

    def _add_functions(self, functions: list[Any], name: str) -> None:
        """Add the first of ``functions`` as ``name``, and the others, which it calls, under names derived from that."""
        main, *inner = functions
        names = {f.signature.name: f"{name}_{i}" for i, f in enumerate(inner)} | {main.signature.name: name}
        for function in functions:
            function.signature.name = names[function.signature.name]
            for node in function.node_def:
                rename_calls(node, names)
        self.made += functions

    def _rewrite_call(self, node: Any, operation: Any, constants: Constants, path: str) -> None:
        """Let ``node`` call functions of its own, whose nodes are rewritten for the shapes that it gives them."""
        arguments = list(operation.inputs)[1 if node.op in _BRANCHING else 0 :]
        passed = {i: value for i, t in enumerate(arguments) if (value := constant_of(t, constants)) is not None}
        if node.op in _LOOPS:
            passed = {i: passed[i] for i in _find_loop_constants(node, self.functions) & set(passed)}
        names = {}
        for called in filter(self._concerned.__contains__, called_by(node)):
            function = copy_message(self.functions[called])
            function.signature.name = names[called] = f"rewritten_{len(self.made)}"
            self.made.append(function)
            graph = _load_function(self.functions[called], [t.shape for t in arguments], self.graph)
            renamed = self.rewrite_nodes(function.node_def, graph, passed, f"{path} > ")
            for inner in function.node_def:
                inner.input[:] = [renamed.get(tensor, tensor) for tensor in inner.input]
            for key, tensor in function.ret.items():
                function.ret[key] = renamed.get(tensor, tensor)
        rename_calls(node, names)


def _load_function(function: Any, shapes: Sequence[Any], outer: Any) -> Any:
    """Return the function's body as a graph, with the shapes of its arguments."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    with outer.as_default():
        return function_def_to_graph(function, input_shapes=list(shapes))


def _find_loop_constants(node: Any, functions: Mapping[str, Any]) -> set[int]:
    """Return the numbers of the loop's variables that its body returns as they were."""
    body = functions[node.attr["body"].func.name]
    arguments = [a.name for a in body.signature.input_arg]
    nodes = {n.name: n for n in body.node_def}
    results = [source_of(body.ret[output.name], nodes) for output in body.signature.output_arg]
    return {i for i, (argument, result) in enumerate(zip(arguments, results, strict=True)) if argument == result}


class _LeftAsItIs(Exception):
    """The rewrite answered None."""


def _trace_rewrite(rewrite: Rewrite, op: Op) -> list[Any]:
    """Return the FunctionDef of what stands for ``op``, and those that it calls. Raises _LeftAsItIs."""
    inputs = op.operation.inputs
    for number, tensor in enumerate(inputs):
        shape = tensor.shape
        if shape.rank is None or not shape[1 if op.type in ANY_ROWS else 0 :].is_fully_defined():
            raise NotRewritten(f"the shape of its input {number} is not known before it runs")

    def stand_in(*tensors: Any) -> Any:
        outputs = rewrite(op, *tensors)
        if outputs is None:
            raise _LeftAsItIs
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        _require_same(op, outputs)
        return outputs

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
    concrete = tf.function(stand_in, autograph=False).get_concrete_function(*specs)
    return [prefix_node_names(concrete.function_def), *concrete.graph.as_graph_def().library.function]


def _require_same(op: Op, outputs: Sequence[Any]) -> None:
    """Raise TypeError unless ``outputs`` have the types of those of ``op``, and shapes that are compatible."""
    wanted, made = ([(tensor.dtype, tensor.shape) for tensor in tensors] for tensors in (op.outputs, outputs))
    if len(wanted) != len(made) or any(
        dtype != own or not shape.is_compatible_with(own_shape)
        for (dtype, shape), (own, own_shape) in zip(wanted, made, strict=True)
    ):
        raise TypeError(f"the rewrite of {op.type} gives {made}, where TensorFlow gives {wanted}")


def prefix_node_names(function: Any) -> Any:
    """Copy ``function`` with node names that are new where it is inlined: no node has them below the call."""
    result = copy_message(function)
    arguments = {a.name: f"rewritten_{i}" for i, a in enumerate(function.signature.input_arg)}
    rename_nodes(result, arguments | {n.name: f"rewritten/{n.name}" for n in function.node_def})
    return result
