"""An allow-list of ops, which every node of a model is checked against before TensorFlow reads or runs it.

Allowed are the ops that XLA compiles and those that the importers remove. No other op can be in a library, so an early
refusal loses nothing, and ops that a later TensorFlow adds (to read a file, call Python, load a library) are refused
without being listed here. Forbidden nodes that no answer depends on (a summary, a print, a file that is written) become
nodes that do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from builder.base.commands import docs_command
from builder.base.errors import ImportModelError, PreflightError
from builder.base.escape import escape_invisible
from builder.base.tf import import_tensorflow
from builder.importers.loaded import tensor_name
from builder.importers.rewrite import (
    all_nodes,
    called_by,
    copy_message,
    drop_unread_optionals,
    find_functions_with,
    find_reachable,
    keep_reachable,
    node_of,
    without_side_effects,
)
from builder.importers.stablehlo import STABLEHLO, foreign_calls, unreadable_version
from builder.importers.variables_state import WRITES
from builder.importers.xla_ops import TAKEN, OpReport, constant_size, inspect_ops, is_compiled

IMPORTED = TAKEN | {"Variable", "VariableV2", "RefEnter", "RefExit", "RefMerge", "RefNextIteration", "RefSwitch"}
"""Ops that XLA has no kernel for and that the importers remove."""

LARGEST = 10_000_000_000
"""The most bytes that a graph's constants may declare: the largest bundle, a container image, holds 10 GB."""


class UnsupportedOpsError(PreflightError):
    """The graph has ops that cannot be compiled; it was not run. ``ops``: all of them."""

    def __init__(self, ops: OpReport) -> None:
        super().__init__("\n".join(ops.format_lines()))
        self.ops = ops


def admit_graph(
    graph_def: Any, fetches: Sequence[str], feeds: Mapping[str, str], taken: Collection[str] = ()
) -> tuple[Any, dict[str, str]]:
    """Return the allowed part of ``graph_def`` that ``fetches`` need, and ``feeds`` (name to tensor); run nothing.

    ``taken``: further ops, which the caller removes. A feed behind forbidden nodes becomes a placeholder of another
    name. Raises UnsupportedOpsError where an answer depends on a forbidden op, and ImportModelError for constants that
    are larger than any bundle, for functions with the name of an op, and for programs that call functions outside of
    the model.
    """
    try:
        source = keep_reachable(graph_def, fetches, feeds.values())
        return _remove_forbidden_nodes(source, fetches, feeds, IMPORTED.union(taken))
    except RecursionError as error:
        raise ImportModelError("The graph's functions call each other too deeply to be read.") from error


def _remove_forbidden_nodes(
    source: Any, fetches: Sequence[str], feeds: Mapping[str, str], taken: frozenset[str]
) -> tuple[Any, dict[str, str]]:
    _require_names(source)
    _require_sizes(source)
    drop_unread_optionals(source)
    graph = _Graph(source, taken)
    new_names = graph.disarm_nodes(
        graph.definition.node, {node_of(f) for f in fetches}, {tensor_name(t) for t in feeds.values()}
    )
    if graph.changed:
        feeds = {name: new_names.get(tensor_name(tensor), tensor) for name, tensor in feeds.items()}
        source = keep_reachable(graph.definition, fetches, feeds.values())
    if not all(map(graph.is_allowed, source.node)):
        report = inspect_ops(keep_reachable(without_side_effects(source), fetches, feeds.values()))
        strings = bool(taken - IMPORTED)  # True if the caller cuts the strings off.
        missing = tuple(u for u in report.unsupported if u.op not in taken and not (strings and "= string" in u.reason))
        raise UnsupportedOpsError(replace(report, unsupported=missing))
    _require_readable_programs(source)
    return source, dict(feeds)


def may_admit(graph_def: Any, fetch: str, feeds: Mapping[str, str]) -> bool:
    """Return whether ``admit_graph`` accepts ``graph_def`` with this fetch."""
    try:
        admit_graph(graph_def, [fetch], feeds)
    except PreflightError:
        return False
    return True


class _Graph:
    """A copy of a graph, each of whose functions is disarmed when it is first reached."""

    def __init__(self, graph_def: Any, taken: Collection[str]) -> None:
        self.taken = taken
        self.definition = copy_message(graph_def)
        self.functions = {f.signature.name: f for f in self.definition.library.function}
        self.changed = False
        self._forbidden: dict[str, bool] = {}

    def is_allowed(self, node: Any) -> bool:
        known = node.op in self.functions or node.op in self.taken or is_compiled(node.op)
        return known and not any(name in self.functions and self._is_forbidden(name) for name in called_by(node))

    def _is_forbidden(self, name: str) -> bool:
        """Return whether a result of the function depends on a forbidden node."""
        if name not in self._forbidden:
            self._forbidden[name] = False  # A function that calls itself finds this value.
            function = self.functions[name]
            self.disarm_nodes(function.node_def, set(map(node_of, function.ret.values())), set())
            self._forbidden[name] = not all(map(self.is_allowed, function.node_def))
        return self._forbidden[name]

    @cached_property
    def _writers(self) -> set[str]:
        """The functions that write a variable."""
        return find_functions_with(self.definition, _writes_variable)

    def disarm_nodes(self, nodes: Any, roots: set[str], fed: set[str]) -> dict[str, str]:
        """Disable forbidden nodes, and their readers, where neither ``roots`` nor state depend on them.

        ``nodes``: the nodes of the graph or of one function. ``fed``: the tensors whose values come from outside.
        Returns the new names of the tensors that were renamed.
        """
        nodes_by_name = {node.name: node for node in nodes}
        tainted = {name for name, node in nodes_by_name.items() if not self.is_allowed(node)}
        if not tainted:
            return {}
        reads = {name: _sources(node, fed) & set(nodes_by_name) for name, node in nodes_by_name.items()}
        writers = {n.name for n in nodes if _writes_variable(n) or not self._writers.isdisjoint(called_by(n))}
        live = find_reachable(roots | writers, reads)
        readers: dict[str, set[str]] = {name: set() for name in nodes_by_name}
        for name, sources in reads.items():
            for source in sources:
                readers[source].add(name)
        dead = find_reachable(tainted, readers) - live
        new_names = _add_placeholders(nodes, [tensor for tensor in sorted(fed) if node_of(tensor) in dead])
        for name in dead:
            _do_nothing(nodes_by_name[name], set(nodes_by_name) - set(map(node_of, fed)))
        self.changed |= bool(dead)
        return new_names


def _writes_variable(node: Any) -> bool:
    return WRITES.match(node.op) is not None


def _sources(node: Any, fed: set[str]) -> set[str]:
    """Return the names of the nodes whose values ``node`` reads."""
    return {node_of(i) for i in node.input if not i.startswith("^") and tensor_name(i) not in fed}


def _do_nothing(node: Any, others: set[str]) -> None:
    """Turn ``node`` into a NoOp that still runs after those of ``others`` that it read."""
    waits = dict.fromkeys(f"^{node_of(tensor)}" for tensor in node.input if node_of(tensor) in others)
    name = node.name
    node.Clear()
    node.name, node.op = name, "NoOp"
    node.input.extend(waits)


def _add_placeholders(nodes: Any, tensors: list[str]) -> dict[str, str]:
    """Have all readers of each of ``tensors`` read a new placeholder, and return the new names by the old."""
    nodes_by_name = {node.name: node for node in nodes}
    new_names: dict[str, str] = {}
    for tensor in tensors:
        name, _, number = tensor.rpartition(":")
        fresh = f"{name}/fed_{number}"
        while fresh in nodes_by_name:
            fresh += "_"
        placeholder = nodes.add(name=fresh, op="Placeholder")
        placeholder.attr["dtype"].type = output_type(nodes_by_name[name], int(number))
        placeholder.attr["shape"].shape.unknown_rank = True
        new_names[tensor] = f"{fresh}:0"
    for node in nodes:
        node.input[:] = [new_names.get(tensor_name(tensor), tensor) for tensor in node.input]
    return new_names


def output_type(node: Any, number: int) -> int:
    """Return the DataType of a node's output, or raise ImportModelError where the op is unknown."""
    definition = _op_def(node.op)
    types: list[int] = []
    for output in definition.output_arg if definition else ():
        if output.type_list_attr:
            types += node.attr[output.type_list_attr].list.type
            continue
        default = next((a.default_value.type for a in definition.attr if a.name == output.type_attr), 0)
        dtype = node.attr[output.type_attr].type if output.type_attr in node.attr else default
        count = node.attr[output.number_attr].i if output.number_attr else 1
        types += [output.type or dtype] * min(count, number + 1)
    if number >= len(types) or not types[number]:
        raise ImportModelError(
            f"The feed {escape_invisible(node.name)}:{number} is an output of {escape_invisible(node.op)}, whose type "
            "is not known here: feed a tensor after it."
        )
    return types[number]


def _op_def(op: str) -> Any:
    import_tensorflow()
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(op)


def _require_names(graph_def: Any) -> None:
    """Raise ImportModelError for a function with the name of an op, as TensorFlow might run the op instead."""
    for function in graph_def.library.function:
        if _op_def(function.signature.name) is not None:
            raise ImportModelError(
                f"The graph has a function {escape_invisible(function.signature.name)}, and TensorFlow has an op of "
                "that name: give the function another name."
            )


def _require_sizes(graph_def: Any) -> None:
    """Raise ImportModelError if constants, which may declare any size and hold one value, declare too much."""
    total = 0
    for node in all_nodes(graph_def):
        total += abs(constant_size(node))
        if total > LARGEST:
            raise ImportModelError(
                f"The graph's constants declare more than {LARGEST:,} bytes (at {escape_invisible(node.name)}), more "
                "than any bundle holds: use a smaller model."
            )


def _require_readable_programs(graph_def: Any) -> None:
    """Raise ImportModelError for a program that TensorFlow cannot read, or that calls functions outside it."""
    for node in all_nodes(graph_def):
        if node.op != "XlaCallModule":
            continue
        if version := unreadable_version(node.attr["module"].s):
            raise ImportModelError(
                f"The program in {escape_invisible(node.name)} was written for StableHLO {version}, and has ops that "
                f"TensorFlow's {STABLEHLO} does not know: give the function as jax.export serialises it "
                f"({docs_command('frameworks')})."
            )
        if names := foreign_calls(node.attr["module"].s):
            raise ImportModelError(
                f"The program in {escape_invisible(node.name)} calls functions outside it: "
                f"{', '.join(map(escape_invisible, names))}. Export the model without custom calls."
            )
