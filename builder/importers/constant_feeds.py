"""Constants (``value`` under [[feeds]]) in the place of inputs such as a training graph's ``keep_prob``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError, PreflightError
from builder.base.tf import tf
from builder.config import ModelSpec
from builder.config.rules import FRAMEWORK_FORMATS
from builder.importers.allowed_ops import admit_graph
from builder.importers.folding import remove_dead_code
from builder.importers.loaded import LoadedModel, RawGraph, Shape
from builder.importers.rewrite import (
    all_nodes,
    become_constant,
    copy_message,
    inline_calls,
    keep_reachable,
    node_of,
    without_side_effects,
)
from builder.importers.shapes import drop_constants, read_constants

Value = bool | float

_DECIDED = {bool: ("If", "StatelessIf", "RandomUniform", "Switch"), float: ("RandomUniform",)}
"""Ops that disappear once an input that tells training from inference is a constant, by the input's type."""


def with_constant_feeds(loaded: LoadedModel, spec: ModelSpec) -> tuple[LoadedModel, ModelSpec]:
    """Turn the inputs to which ``spec`` gives a value into constants, and remove them from the model and the spec.

    Raises ImportModelError for a value that the input cannot have.
    """
    if spec.source.format in FRAMEWORK_FORMATS:  # The program was made without them.
        return loaded, drop_constants(spec)
    values = read_constants(loaded.ports, spec)
    if not values:
        return loaded, spec

    def freeze(shapes: Mapping[str, Shape]) -> RawGraph:
        return _with_values(loaded.freeze({**shapes, **{name: v.shape for name, v in values.items()}}), values)

    ports = replace(loaded.ports, feeds=tuple(p for p in loaded.ports.feeds if p.name not in values))
    return LoadedModel(ports, freeze), drop_constants(spec)


def _with_values(raw: RawGraph, values: Mapping[str, NDArray[Any]]) -> RawGraph:
    graph_def = copy_message(raw.graph_def)
    nodes = {node.name: node for node in graph_def.node}
    for name, value in values.items():
        become_constant(nodes[node_of(raw.feeds[name])], value)
    return replace(raw, graph_def=graph_def, feeds={n: t for n, t in raw.feeds.items() if n not in values})


def propose_values(graph_def: Any, fetches: Sequence[str], feeds: Mapping[str, str]) -> dict[str, Value]:
    """Find the inputs that only tell training from inference, with their value for inference.

    These are scalars whose value removes a branch or a random number from the nodes that ``fetches`` need. ``fetches``
    and ``feeds`` are tensors. Runs only ops that are allowed.
    """
    nodes = {node.name: node for node in graph_def.node}
    candidates = {n: choices for n, t in feeds.items() if (choices := _list_values(nodes.get(node_of(t))))}
    proposed: dict[str, Value] = {}
    if not candidates:
        return proposed
    try:
        admitted, inputs = admit_graph(graph_def, fetches, feeds)
        ports = [*fetches, *inputs.values()]
        source = without_side_effects(keep_reachable(inline_calls(admitted, ports), fetches, inputs.values()))
        general = remove_dead_code(source, fetches, inputs.values())
        for name, values in candidates.items():
            for value in values:
                fixed = _with_values(RawGraph(source, inputs, {}), {name: value})
                rest = remove_dead_code(fixed.graph_def, fetches, fixed.feeds.values())
                if any(_count_ops(rest, op) < _count_ops(general, op) for op in _DECIDED[type(value.item())]):
                    proposed[name] = value.item()
                    break
    except (PreflightError, ImportModelError, ValueError, tf.errors.OpError):
        pass  # The import of the graph reports what is wrong with it.
    return proposed


def _list_values(node: Any) -> list[NDArray[Any]]:
    """Return the values that a scalar input may have for inference; the list is empty for other nodes."""
    if node is None or node.op != "Placeholder" or ("shape" in node.attr and node.attr["shape"].shape.dim):
        return []
    dtype = tf.as_dtype(node.attr["dtype"].type)
    values: tuple[Value, ...] = (False,) if dtype.is_bool else (1.0, 0.0) if dtype.is_floating else ()
    return [np.array(value, dtype.as_numpy_dtype) for value in values]


def _count_ops(definition: Any, op: str) -> int:
    return sum(node.op == op for node in all_nodes(definition))
