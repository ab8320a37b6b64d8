"""Constant folding with TensorFlow, and the removal of branches and random numbers that constants make superfluous.

XLA folds constants too, but its logarithm, sine and the like differ from TensorFlow's. Where a difference of two of
them is close to 0, as for a mel filter of no width, the answers then have nothing in common. Ops that XLA computes to
the same bits are left to it, so that nothing changes in a model without such constants.

Graphs that serve both training and inference have branches that are never taken, and random numbers that cannot change
anything: ``is_training`` chooses a branch, and dropout with a ``keep_prob`` of 1 keeps all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from builder.base.tf import load_graph, reference_session, tf
from builder.importers.rewrite import (
    become_call,
    become_constant,
    called_by,
    copy_message,
    inline_calls,
    keep_reachable,
    make_canonical,
    node_of,
    run_grappler,
    without_side_effects,
)
from builder.importers.rewrites import rewrite_of
from builder.importers.rewrites.apply_rewrites import prefix_node_names

INEXACT = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "BesselI0e", "BesselI1e", "Betainc", "Cos", "Cosh",
    "Digamma", "Elu", "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Igamma", "Igammac", "Lgamma", "Log", "Log1p",
    "LogSoftmax", "Ndtri", "Polygamma", "Pow", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Tan", "Tanh",
    "Xlog1py", "Xlogy", "Zeta",
})  # fmt: skip
"""Ops whose last bits differ between XLA and TensorFlow."""

_PREDICATES = {"If": 0, "StatelessIf": 0, "Switch": 1}
"""The number of the input of an op that chooses the branch."""

BESIDE_DRAWS = frozenset({"Add", "AddV2", "GreaterEqual", "Mul", "Sub"})
"""Ops with which dropout makes a mask from random numbers: see ``builder.importers.folding``."""

LARGEST = 4 << 20
"""The bytes that a result may have, however small its inputs are."""

_NEVER = ("Placeholder", "Random", "Stateless", "Xla", "Enter", "Merge", "Switch", "Exit", "NextIteration")
"""Prefixes of ops that have no single value, or that TensorFlow cannot run alone."""


def fold_constants(definition: Any, fetches: Collection[str], feeds: Collection[str]) -> Any:
    """Return the part of a GraphDef that ``fetches`` need, with INEXACT and rewritten ops of constants folded.

    Predicates that constants decide become constants, too. This holds at top level and in each function. ``fetches``
    and ``feeds`` are tensors, and nothing before a feed is computed. A result is no larger than LARGEST or than its
    largest input. Runs these ops, so they have to be allowed.
    """
    result = copy_message(definition)
    functions = {f.signature.name for f in result.library.function}
    _fold_nodes(result.node, set(map(node_of, fetches)), set(map(node_of, feeds)), functions, lambda name: name)
    for function in result.library.function:
        fetched = set(map(node_of, function.ret.values()))
        renamed = _fold_nodes(function.node_def, fetched, set(), functions, lambda name: f"{name}:output:0")
        for output, tensor in function.ret.items():
            if node_of(tensor) in renamed:
                function.ret[output] = renamed[node_of(tensor)]
    return keep_reachable(result, fetches, feeds)


def _fold_nodes(
    nodes: Any, fetched: set[str], fed: set[str], functions: set[str], tensor_of: Callable[[str], str]
) -> Mapping[str, str]:
    """Replace nodes by constants in place, and return for each the tensor name that readers use."""
    candidates = {node.name: node for node in nodes if _may_be_known(node, functions) and node.name not in fed}
    constants = _find_constant_nodes(candidates)
    targets = _find_inexact(constants) | _find_predicates(nodes, constants)
    if not targets:
        return {}
    graph_def = tf.compat.v1.GraphDef()
    for node in constants.values():
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [node_of(tensor) for tensor in node.input]
    try:
        graph = load_graph(graph_def)
        small = _find_small(graph)
        read = {node_of(t) for node in nodes if node.name not in small for t in node.input if not t.startswith("^")}
        ends = sorted(targets & small & (read | fetched))
        with reference_session(graph) as session:
            values = session.run([f"{name}:0" for name in ends])
    except (ValueError, TypeError, tf.errors.OpError):
        return {}  # The import or the run of the graph reports what is wrong with it.
    for name, value in zip(ends, values, strict=True):
        become_constant(constants[name], value)
    renamed = {name: tensor_of(name) for name in ends}
    for node in nodes:
        node.input[:] = [
            renamed[node_of(t)] if node_of(t) in renamed and not t.startswith("^") else t for t in node.input
        ]
    return renamed


def _may_be_known(node: Any, functions: set[str]) -> bool:
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    if definition is None or definition.is_stateful:
        return False
    if node.op.startswith(_NEVER) and node.op != "PlaceholderWithDefault":  # It has a value, as feeds are excluded.
        return False
    if not functions.isdisjoint(called_by(node)) or any(t.startswith("^") for t in node.input):
        return False
    return len(definition.output_arg) == 1 and not (
        definition.output_arg[0].number_attr or definition.output_arg[0].type_list_attr
    )


def _find_constant_nodes(candidates: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the nodes that depend on constants alone, each after the nodes that it reads."""
    sources = {name: {node_of(tensor) for tensor in node.input} for name, node in candidates.items()}
    constants: dict[str, Any] = {}
    try:
        for name in TopologicalSorter(sources).static_order():
            if name in sources and (candidates[name].op == "Const" or constants.keys() >= sources[name] != set()):
                constants[name] = candidates[name]
    except CycleError:  # The import of the graph reports what is wrong with it.
        return {}
    return constants


def _find_inexact(constants: Mapping[str, Any]) -> set[str]:
    """Return the nodes whose bits XLA would change; in ``constants``, each node is after those that it reads."""
    inexact: set[str] = set()
    for name, node in constants.items():
        if node.op in INEXACT or rewrite_of(node) or any(node_of(tensor) in inexact for tensor in node.input):
            inexact.add(name)
    return inexact


def _find_predicates(nodes: Any, constants: Mapping[str, Any]) -> set[str]:
    """Find those of ``constants`` that choose a branch, or that may be combined or compared with random numbers."""
    tensors = [node.input[_PREDICATES[node.op]] for node in nodes if node.op in _PREDICATES]
    if any(node.op == "RandomUniform" for node in nodes):
        tensors += [tensor for node in nodes if node.op in BESIDE_DRAWS for tensor in node.input]
    return {name for name in map(node_of, tensors) if name in constants and constants[name].op != "Const"}


def _find_small(graph: Any) -> set[str]:
    """Return the names of operations that have results, and depend on results, small enough to compute and keep."""
    sizes: dict[str, int] = {}
    for operation in graph.get_operations():
        (output,) = operation.outputs
        if output.dtype in (tf.string, tf.resource, tf.variant) or not output.shape.is_fully_defined():
            continue
        size = output.shape.num_elements() * output.dtype.size
        read_sizes = [sizes.get(tensor.op.name) for tensor in operation.inputs]
        if operation.type == "Const" or (None not in read_sizes and size <= max(LARGEST, *filter(None, read_sizes), 0)):
            sizes[operation.name] = size
    return set(sizes)


def remove_dead_code(
    definition: Any, fetches: Collection[str], feeds: Collection[str], pure: Callable[[Any], Any] = without_side_effects
) -> Any:
    """Fold the constants of a GraphDef, and remove the branches and random numbers that they make superfluous.

    ``pure`` removes nodes that only have side effects. Ops of the graph run, so they have to be allowed.
    """
    source = fold_constants(definition, fetches, feeds)
    if _choose_branches(source):
        ports = [*fetches, *feeds]
        source = inline_calls(run_grappler(source, ports, "loop"), ports)  # The pass handles Switch and Merge, too.
        source = make_canonical(keep_reachable(pure(source), fetches, feeds))
        source = fold_constants(source, fetches, feeds)
    return keep_reachable(source, fetches, feeds) if _drop_draws(source) else source


def _choose_branches(definition: Any) -> bool:
    """Replace Ifs whose predicate is constant by calls; return whether there was one, or such a Switch."""
    changed = False
    library = {function.signature.name: function for function in definition.library.function}
    copies: dict[str, str] = {}  # Copies of branches, with new node names for Grappler's inlining.
    scopes = [definition.node, *(function.node_def for function in library.values())]
    for nodes in scopes:
        predicates = _read_scalars(nodes, "is_bool")
        for node in nodes:
            if node.op in ("If", "StatelessIf") and node_of(node.input[0]) in predicates:
                branch = node.attr["then_branch" if predicates[node_of(node.input[0])] else "else_branch"].func.name
                if branch in library and branch not in copies:
                    copy = definition.library.function.add()
                    copy.CopyFrom(prefix_node_names(library[branch]))
                    copy.signature.name = copies[branch] = f"chosen_{len(copies)}"
                    scopes.append(copy.node_def)
                types = ([tf.as_dtype(dtype) for dtype in node.attr[key].list.type] for key in ("Tin", "Tout"))
                become_call(node, copies.get(branch, branch), node.input[1:], *types)
                changed = True
            changed |= node.op == "Switch" and node_of(node.input[1]) in predicates
    return changed


def _drop_draws(definition: Any) -> bool:
    """Replace the mask of each dropout that drops nothing by ones of its shape, and return whether there is one.

    A random number in [0, 1) is never less than 0, and such a number plus 1 is always 1 when it is rounded down.
    """
    nodes = {node.name: node for node in definition.node}
    scalars = _read_scalars(definition.node, "is_floating")
    for node in nodes.values() if any(node.op == "RandomUniform" for node in nodes.values()) else ():
        if node.op == "Floor" or (node.op == "GreaterEqual" and scalars.get(node_of(node.input[1]), 1) <= 0):
            draw, added = _find_draw(node.input[0], nodes, scalars)
            if draw is not None and added == (node.op == "Floor"):
                _fill_with_one(definition, node, draw)
    return len(definition.node) > len(nodes)


def _find_draw(tensor: str, nodes: Mapping[str, Any], scalars: Mapping[str, float]) -> tuple[Any | None, float]:
    """Find the RandomUniform behind ``tensor``, and the number added to it: 0, or 1, which is exact."""
    added, node = 0.0, nodes.get(node_of(tensor))
    for _ in nodes:  # A damaged graph may have a cycle.
        if node is None or node.op == "RandomUniform":
            return node, added
        known = [(i, value) for i, t in enumerate(node.input[:2]) if (value := scalars.get(node_of(t))) is not None]
        place, value = known[0] if len(known) == 1 else (1, 0.0 if node.op == "Identity" else math.nan)
        if node.op in ("Add", "AddV2") and value in (0, 1):
            added += value
        elif not (node.op == "Identity" or (node.op, value) == ("Mul", 1) or (node.op, place, value) == ("Sub", 1, 0)):
            break
        node = nodes.get(node_of(node.input[1 - place]))
    return None, 0.0


def _fill_with_one(definition: Any, node: Any, draw: Any) -> None:
    """Turn ``node`` into ones, or true, in the shape of ``draw``."""
    dtype = tf.dtypes.as_dtype(node.attr["T"].type if node.op == "Floor" else "bool")
    value = definition.node.add(name=f"{node.name}/value")
    become_constant(value, np.ones((), dtype.as_numpy_dtype))
    filled = type(node)(name=node.name, op="Fill", input=[draw.input[0], value.name])
    filled.attr["T"].type = dtype.as_datatype_enum
    filled.attr["index_type"].CopyFrom(draw.attr["T"])
    node.CopyFrom(filled)


def _read_scalars(nodes: Iterable[Any], kind: str) -> dict[str, Any]:
    """Read the scalar constants of a DType of this ``kind`` (``is_bool``, ``is_floating``), by node."""
    values = {}
    for node in nodes:
        if node.op == "Const":  # Reading the attribute of another node would add it.
            tensor = node.attr["value"].tensor
            if not tensor.tensor_shape.dim and getattr(tf.as_dtype(tensor.dtype), kind):
                values[node.name] = tf.make_ndarray(tensor).item()
    return values
