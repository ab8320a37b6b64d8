"""Rewrite every node of a graph that has a rewrite, those inside functions, loops and branches included.

A node becomes a call of a function that holds what stands for it, so it keeps its name and its readers at every
level. A function that is called with inputs of different shapes becomes one function for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.base.tf import load_graph, tf
from builder.importers.rewrite import (
    all_nodes,
    become_call,
    called_by,
    copy_message,
    node_of,
    output_names,
    source_of,
)
from builder.importers.rewrites import OPEN, rewrite_of
from builder.importers.rewrites.constant_nodes import Constants, constant_of
from builder.importers.rewrites.input_limits import find_row_limit, find_size_limits
from builder.importers.rewrites.op import NotRewritten, Op, OpOutput, Rewrite

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
    """Tell whether any node of a GraphDef has a rewrite."""
    return any(map(choose, all_nodes(definition)))


def rewrite_ops(definition: Any, choose: Choose = rewrite_of) -> Rewritten:
    """Rewrite what ``choose`` says in a GraphDef, whose placeholders have static shapes. Leaves its argument alone."""
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
        self._concerned: dict[str, bool] = {}

    def rewrite_nodes(self, nodes: Any, graph: Any, constants: Constants, prefix: str) -> dict[str, str]:
        """Rewrite ``nodes``, which ``graph`` has as operations. Returns tensors of functions that are called otherwise.

        ``constants``: of the arguments of ``graph``, where that is a function's.
        """
        renamed: dict[str, str] = {}
        for node in nodes:
            path = prefix + node.name
            if rewrite := self.choose(node):
                renamed |= self._rewrite_node(node, rewrite, graph.get_operation_by_name(node.name), constants, path)
            elif any(map(self._is_concerned, called_by(node))):
                self._rewrite_call(node, graph.get_operation_by_name(node.name), constants, path)
        return renamed

    def _is_concerned(self, name: str) -> bool:
        """Tell whether a function, or one that it calls, has a node to rewrite."""
        if name not in self.functions:
            return False
        if name not in self._concerned:
            self._concerned[name] = False  # of one that calls itself
            nodes = self.functions[name].node_def
            self._concerned[name] = any(
                self.choose(node) or any(map(self._is_concerned, called_by(node))) for node in nodes
            )
        return self._concerned[name]

    def _rewrite_node(
        self, node: Any, rewrite: Rewrite, operation: Any, constants: Constants, path: str
    ) -> dict[str, str]:
        try:
            function = _trace_rewrite(node, rewrite, operation, constants, self.graph)
        except NotRewritten as error:
            self.refused.append((path, node.op, str(error)))
            return {}
        if function is None:
            return {}
        self.changed = True
        outputs = [f"{node.name}:{name}" for name in output_names(operation)]
        name = f"rewritten_{len(self.made)}"
        self._add_function(function, name)
        become_call(node, name, node.input, [t.dtype for t in operation.inputs], [t.dtype for t in operation.outputs])
        return {old: f"{node.name}:output:{i}" for i, old in enumerate(outputs)}

    def _add_function(self, function: Any, name: str) -> None:
        """The function ``function``, as ``name``, and those that it calls, under names that are this graph's own."""
        main, *inner = function
        names = {f.signature.name: f"{name}_{i}" for i, f in enumerate(inner)} | {main.signature.name: name}
        for one in function:
            one.signature.name = names[one.signature.name]
            for node in one.node_def:
                _call_others(node, names)
        self.made += function

    def _rewrite_call(self, node: Any, operation: Any, constants: Constants, path: str) -> None:
        """Let ``node`` call functions of its own, whose nodes are rewritten for the shapes that it gives them."""
        first = 1 if node.op in _BRANCHING else 0
        given = list(operation.inputs)[first:]
        known = {i: value for i, tensor in enumerate(given) if (value := constant_of(tensor, constants)) is not None}
        names = {}
        for called in filter(self._is_concerned, called_by(node)):
            source = self.functions[called]
            own = (
                known
                if node.op not in _LOOPS
                else {i: known[i] for i in _find_loop_constants(node, self.functions) & set(known)}
            )
            name = f"rewritten_{len(self.made)}"
            function = copy_message(source)
            function.signature.name = names[called] = name
            self.made.append(function)
            graph = _function_graph(source, [t.shape for t in given], self.graph)
            renamed = self.rewrite_nodes(function.node_def, graph, own, f"{path} > ")
            for inner in function.node_def:
                inner.input[:] = [renamed.get(tensor, tensor) for tensor in inner.input]
            for key, tensor in function.ret.items():
                function.ret[key] = renamed.get(tensor, tensor)
        _call_others(node, names)


def _call_others(node: Any, names: Mapping[str, str]) -> None:
    node.op = names.get(node.op, node.op)
    for key in node.attr:
        value = node.attr[key]
        for called in [value.func] if value.HasField("func") else value.list.func if value.HasField("list") else ():
            called.name = names.get(called.name, called.name)


def _function_graph(function: Any, shapes: Sequence[Any], outer: Any) -> Any:
    """The function's body with the shapes of its arguments."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    with outer.as_default():
        return function_def_to_graph(function, input_shapes=list(shapes))


def _find_loop_constants(node: Any, functions: Mapping[str, Any]) -> set[int]:
    """Numbers of the loop's variables that its body returns as they were."""
    body = functions[node.attr["body"].func.name]
    arguments = [a.name for a in body.signature.input_arg]
    nodes = {n.name: n for n in body.node_def}
    results = [source_of(body.ret[output.name], nodes) for output in body.signature.output_arg]
    return {i for i, (argument, result) in enumerate(zip(arguments, results, strict=True)) if argument == result}


def _trace_rewrite(node: Any, rewrite: Rewrite, operation: Any, constants: Constants, graph: Any) -> list[Any] | None:
    """The FunctionDef of what stands for ``node``, and those that it calls; None where it is to stay."""
    unknown = [i for i, t in enumerate(operation.inputs) if not _is_known(t.shape, first=node.op not in OPEN)]
    if unknown:
        raise NotRewritten(f"the shape of its input {unknown[0]} is not known before it runs")
    op = Op(
        node.op,
        tuple(OpOutput(t.dtype, _dims(t.shape)) for t in operation.outputs),
        {a.name: operation.get_attr(a.name) for a in operation.op_def.attr},
        [lambda t=t: constant_of(t, constants) for t in operation.inputs],  # type: ignore[misc]
        [lambda t=t: find_row_limit(t, constants) for t in operation.inputs],  # type: ignore[misc]
        [lambda t=t: find_size_limits(t) for t in operation.inputs],  # type: ignore[misc]
    )

    def stand_in(*inputs: Any) -> Any:
        outputs = rewrite(op, *inputs)
        if outputs is None:
            raise _LeftAsItIs
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        _require_same(node.op, op.outputs, outputs)
        return outputs

    specs = [tf.TensorSpec(t.shape, t.dtype) for t in operation.inputs]
    try:
        concrete = tf.function(stand_in, autograph=False).get_concrete_function(*specs)
    except _LeftAsItIs:
        return None
    inner = concrete.graph.as_graph_def().library.function
    return [prefix_node_names(concrete.function_def), *inner]


def _is_known(shape: Any, *, first: bool) -> bool:
    """Tell whether all sizes are known, with the ``first`` one or without."""
    return shape.rank is not None and shape[0 if first else 1 :].is_fully_defined()


def prefix_node_names(function: Any) -> Any:
    """``function`` with names that no node has below the one it stands for: where it is inlined they must be new."""
    arguments = {a.name: f"rewritten_{i}" for i, a in enumerate(function.signature.input_arg)}
    names = arguments | {n.name: f"rewritten/{n.name}" for n in function.node_def}

    def moved(tensor: str) -> str:
        control, name = ("^" if tensor.startswith("^") else ""), node_of(tensor)
        return control + names[name] + tensor.removeprefix("^")[len(name) :]

    result = copy_message(function)
    for argument in result.signature.input_arg:
        argument.name = names[argument.name]
    for node in result.node_def:
        node.name = names[node.name]
        node.input[:] = [moved(tensor) for tensor in node.input]
    for output, tensor in function.ret.items():
        result.ret[output] = moved(tensor)
    for output, name in function.control_ret.items():
        result.control_ret[output] = names[name]
    return result


class _LeftAsItIs(Exception):
    """The rewrite answered None."""


def _require_same(op: str, wanted: Iterable[OpOutput], found: Sequence[Any]) -> None:
    wanted = list(wanted)
    told = [(output.dtype, output.shape) for output in wanted]
    made = [(tensor.dtype, _dims(tensor.shape)) for tensor in found]
    same = len(told) == len(made) and all(
        a[0] == b[0] and _is_compatible(a[1], b[1]) for a, b in zip(told, made, strict=True)
    )
    if not same:
        raise TypeError(f"the rewrite of {op} gives {made}, where TensorFlow gives {told}")


def _is_compatible(wanted: tuple[int | None, ...] | None, found: tuple[int | None, ...] | None) -> bool:
    if wanted is None or found is None:
        return True
    return len(wanted) == len(found) and all(
        a is None or b is None or a == b for a, b in zip(wanted, found, strict=True)
    )


def _dims(shape: Any) -> tuple[int | None, ...] | None:
    return None if shape.rank is None else tuple(shape.as_list())
