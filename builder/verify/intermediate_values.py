"""Intermediate values of a graph in TensorFlow: the results of its ops, not only of its fetches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.tf import load_graph, reference_session
from builder.importers.graph import FrozenGraph
from builder.importers.variables_state import assign_variables


def compute_inner_values(
    graph: FrozenGraph, definition: Any, feeds: Mapping[str, Array], ops: Collection[str]
) -> dict[str, Array]:
    """Return the first output of each of ``ops`` that is at the top of ``definition`` and has numbers.

    ``definition``: the reference of ``graph``, perhaps with other constants. Variables have their first values.
    """
    loaded = load_graph(definition)
    with reference_session(loaded) as session:
        assign_variables(loaded, session, graph.first_state())
        known = {op.name: op.outputs[0] for op in loaded.get_operations() if op.name in set(ops) and op.outputs}
        wanted = {name: tensor for name, tensor in known.items() if tensor.dtype.is_floating or tensor.dtype.is_integer}
        values = session.run(wanted, {port.tensor: feeds[port.spec.name] for port in graph.feeds})
    return {name: np.asarray(value) for name, value in values.items() if np.asarray(value).dtype.kind in "iuf"}
