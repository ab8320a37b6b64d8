"""Constant folding with TensorFlow, where the last bits of XLA's results would differ.

XLA folds constants too, but its logarithm, sine and the like differ from TensorFlow's. Where a difference of two of
them is close to 0, as for a mel filter of no width, the answers then have nothing in common. Ops that XLA computes to
the same bits are left to it, so that nothing changes in a model without such constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from builder.base.tf import load_graph, reference_session, tf
from builder.importers.rewrite import become_constant, called_by, copy_message, keep_reachable, node_of
from builder.importers.rewrites import rewrite_of

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
"""Ops with which dropout makes a mask from random numbers: see ``builder.importers.dead_code``."""

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


def _find_constant_nodes(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the nodes that depend on constants alone, each after the nodes that it reads."""
    constants: dict[str, Any] = {}
    waiting: dict[str, list[str]] = {}
    missing = {}
    ready = []
    for name, node in named.items():
        sources = {node_of(tensor) for tensor in node.input}
        missing[name] = len(sources)
        for source in sources:
            waiting.setdefault(source, []).append(name)
        if node.op == "Const":
            ready.append(name)
    while ready:
        name = ready.pop()
        constants[name] = named[name]
        for reader in waiting.get(name, ()):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return constants


def _find_inexact(known: Mapping[str, Any]) -> set[str]:
    """Return the nodes whose bits XLA would change; in ``known``, each node is after those that it reads."""
    inexact: set[str] = set()
    for name, node in known.items():
        if node.op in INEXACT or rewrite_of(node) or any(node_of(tensor) in inexact for tensor in node.input):
            inexact.add(name)
    return inexact


def _find_predicates(nodes: Any, known: Mapping[str, Any]) -> set[str]:
    """Find those of ``known`` that choose a branch, or that may be combined or compared with random numbers."""
    tensors = [node.input[_PREDICATES[node.op]] for node in nodes if node.op in _PREDICATES]
    if any(node.op == "RandomUniform" for node in nodes):
        tensors += [tensor for node in nodes if node.op in BESIDE_DRAWS for tensor in node.input]
    return {name for name in map(node_of, tensors) if name in known and known[name].op != "Const"}


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
