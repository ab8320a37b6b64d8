"""The removal of branches that are never taken and of random numbers that cannot change anything.

Graphs that serve both training and inference have them: ``is_training`` chooses a branch, and dropout with a
``keep_prob`` of 1 keeps all. Predicates have to be constants already: see ``builder.importers.folding``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.folding import fold_constants
from builder.importers.rewrite import (
    become_call,
    become_constant,
    inline_calls,
    keep_reachable,
    make_canonical,
    node_of,
    run_grappler,
    without_side_effects,
)
from builder.importers.rewrites.apply_rewrites import prefix_node_names


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
        known = _read_scalars(nodes, "is_bool")
        for node in nodes:
            if node.op in ("If", "StatelessIf") and node_of(node.input[0]) in known:
                branch = node.attr["then_branch" if known[node_of(node.input[0])] else "else_branch"].func.name
                if branch in library and branch not in copies:
                    copy = definition.library.function.add()
                    copy.CopyFrom(prefix_node_names(library[branch]))
                    copy.signature.name = copies[branch] = f"chosen_{len(copies)}"
                    scopes.append(copy.node_def)
                types = ([tf.as_dtype(dtype) for dtype in node.attr[key].list.type] for key in ("Tin", "Tout"))
                become_call(node, copies.get(branch, branch), node.input[1:], *types)
                changed = True
            changed |= node.op == "Switch" and node_of(node.input[1]) in known
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
