"""Variables that a graph writes as it runs: its state, which an opened model keeps from one call to the next.

A graph writes a variable through the handle of a VarHandleOp, perhaps deep in the functions of loops and branches.
Variables that are only read become constants. Those that are written without any effect on the fetches (a counter of
calls) are not state either, as no caller can notice them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.config.tensor import ITEM_SIZES, TensorSpec
from builder.importers.rewrite import called_by, copy_message, find_reachable, map_node_inputs, node_of, output_number

WRITES = re.compile(r"Assign(Add|Sub)?VariableOp$|Rng(ReadAnd)?Skip$|Resource(Scatter|Apply|Sparse|StridedSliceAssign)")
_PASSED_ON = {"Identity": 0, "IdentityN": 0, "While": 0, "StatelessWhile": 0}
"""Ops that return a resource unchanged, in the output of the same position as the input."""

_BRANCHES = {"If", "StatelessIf", "Case", "StatelessCase"}
"""Ops whose first input chooses a branch; the other inputs are the branches' arguments."""


@dataclass(frozen=True)
class Variable:
    """A variable that the graph writes: its name in the model, and its value when the model is opened."""

    name: str
    value: NDArray[Any]


def find_writers(graph_def: Any) -> dict[str, set[str]]:
    """Return the top-level nodes of ``graph_def`` that write, each with the nodes of the handles it uses."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    known: dict[str, set[int]] = {}

    def arguments(name: str) -> set[int]:
        """Return the numbers of the arguments through which the function ``name`` writes."""
        if name not in known:
            known[name] = set()  # A function that calls itself finds this.
            function = functions[name]
            roots = set().union(*_find_node_writers(function.node_def, functions, arguments).values())
            known[name] = {i for i, a in enumerate(function.signature.input_arg) if a.name in roots}
        return known[name]

    return _find_node_writers(graph_def.node, functions, arguments)


def _find_node_writers(
    nodes: Iterable[Any], functions: Mapping[str, Any], arguments: Callable[[str], set[int]]
) -> dict[str, set[str]]:
    named = {n.name: n for n in nodes}
    writers: dict[str, set[str]] = {}
    for node in named.values():
        roots = {handle_of(node.input[0], named)} if WRITES.match(node.op) else set()
        for called in called_by(node):
            if called in functions:
                first = 1 if node.op in _BRANCHES else 0
                roots |= {handle_of(node.input[first + i], named) for i in arguments(called)}
        if roots:
            writers[node.name] = roots
    return writers


def handle_of(tensor: str, nodes: Mapping[str, Any]) -> str:
    """Return the node, or the function's argument, from which a handle comes."""
    name = node_of(tensor)
    while name in nodes and nodes[name].op in _PASSED_ON:
        tensor = nodes[name].input[output_number(tensor)]
        name = node_of(tensor)
    return name


def state_of(graph_def: Any, fetches: Iterable[str]) -> set[str]:
    """Return the nodes of the handles through which the graph writes values that a fetch depends on."""
    writers = find_writers(graph_def)
    edges = map_node_inputs(graph_def.node, control=False)
    seen = find_reachable(map(node_of, fetches), edges)
    # Values written to a relevant variable are relevant, too.
    while matters := [name for name, roots in writers.items() if name not in seen and roots & seen]:
        seen |= find_reachable(matters, edges)
    handles = set().union(*writers.values())
    return handles if handles & seen else set()


def without_debugging(graph_def: Any) -> Any:
    """Remove assertions and prints; nodes that waited for one wait for its inputs instead."""
    result = copy_message(graph_def)
    _drop_debugging(result.node)
    for function in result.library.function:
        gone = _drop_debugging(function.node_def)
        for key in [k for k, node in function.control_ret.items() if node in gone]:
            function.control_ret.pop(key)
            function.signature.control_output.remove(key)
    return result


_DEBUGGING = {"Assert", "PrintV2"}


def _drop_debugging(nodes: Any) -> set[str]:
    gone = {n.name: n for n in nodes if n.op in _DEBUGGING}

    def past(tensor: str) -> list[str]:
        node = gone.get(node_of(tensor))
        return [tensor] if node is None else [p for i in node.input if i.startswith("^") for p in past(i)]

    kept = [n for n in nodes if n.name not in gone]
    for node in kept:
        data = [i for i in node.input if not i.startswith("^")]
        node.input[:] = [*data, *dict.fromkeys(p for i in node.input if i.startswith("^") for p in past(i))]
    del nodes[:]
    nodes.extend(kept)
    return set(gone)


def spec_of(variable: Variable) -> TensorSpec:
    """Return the tensor spec of ``variable``, or raise ImportModelError for a dtype that the C ABI lacks."""
    dtype = variable.value.dtype.name
    if dtype not in ITEM_SIZES:
        raise ImportModelError(
            f"The model keeps the variable {variable.name!r} from call to call, as {dtype}; "
            f"it has to be one of {', '.join(ITEM_SIZES)}."
        )
    return TensorSpec(variable.name, dtype, variable.value.shape)


def assign_variables(graph: Any, session: Any, values: Mapping[str, NDArray[Any]]) -> None:
    """Set variables (by node, in ``graph``) in ``session``, both those behind handles and TensorFlow 1's.

    The values are fed, since a graph holds 2 GB at most.
    """
    assignments, feeds = [], {}
    with graph.as_default():
        for node, value in values.items():
            variable = graph.get_tensor_by_name(f"{node}:0")
            placeholder = tf.compat.v1.placeholder(value.dtype, value.shape)
            feeds[placeholder] = value
            if variable.dtype == tf.resource:
                assignments.append(tf.raw_ops.AssignVariableOp(resource=variable, value=placeholder))
            else:
                assignments.append(tf.raw_ops.Assign(ref=variable, value=placeholder))
        assign_all = tf.group(*assignments)  # A single run extends the session by the new nodes only once.
    session.run(assign_all, feeds)


def read_variables(graph: Any, session: Any, nodes: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Return the values of variables, by node; ``nodes`` maps the node of each handle to its dtype."""
    if not nodes:
        return {}
    with graph.as_default():
        tensors = {
            node: tf.raw_ops.ReadVariableOp(resource=graph.get_tensor_by_name(f"{node}:0"), dtype=dtype)
            for node, dtype in nodes.items()
        }
    return {node: np.asarray(value) for node, value in session.run(tensors).items()}
