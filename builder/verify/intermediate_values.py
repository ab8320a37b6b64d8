"""Intermediate values of a graph in TensorFlow, and the ops that are not to get NaN or infinities."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.tf import load_graph, reference_session, tf
from builder.importers.graph import MODEL_SCOPE, FrozenGraph
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


_AT_NAN = ("MaxPool3D", "TopKV2", "UnsortedSegmentMax", "UnsortedSegmentMin")
_AT_INFINITIES_TOO = (
    "Cast to int16", "Cast to int8", "Cast to uint16", "Cast to uint8", "Dilation2D", "MaxPool", "ResizeArea",
    "ResizeBicubic", "ResizeBilinear", "ScaleAndTranslate", "SegmentMax", "SegmentMin",
)  # fmt: skip
UNLIKE: Mapping[str, Callable[[Array], Array]] = {
    **dict.fromkeys(_AT_NAN, np.isnan), **dict.fromkeys(_AT_INFINITIES_TOO, lambda x: ~np.isfinite(x)),
}  # fmt: skip
"""Ops, and the elements of their first input that they answer in another way: docs/conformance.md shows it."""


def find_unlike_ops(graph: FrozenGraph, calls: Iterable[Mapping[str, Array]]) -> list[str]:
    """Return ``name (type)`` of each op of ``UNLIKE`` outside functions that such elements reach in ``calls``."""
    loaded, reached = load_graph(graph.read_reference()), set[str]()
    ops = [op for op in loaded.get_operations() if read_type(op) in UNLIKE and op.inputs[0].dtype.is_floating]
    with reference_session(loaded) as session:
        assign_variables(loaded, session, graph.first_state())
        for feeds in calls:
            with contextlib.suppress(tf.errors.OpError):  # TensorFlow has no answer to differ from
                fed = {port.tensor: feeds[port.spec.name] for port in graph.feeds}
                for op, value in zip(ops, session.run([op.inputs[0] for op in ops], fed), strict=True):
                    if UNLIKE[read_type(op)](np.asarray(value, np.float64)).any():
                        reached.add(f"{op.name.removeprefix(MODEL_SCOPE)} ({read_type(op)})")
    return sorted(reached)


def read_type(op: Any) -> str:
    """Return the type of a tf.Operation; that of a Cast includes its target."""
    return f"Cast to {op.outputs[0].dtype.name}" if op.type == "Cast" else str(op.type)
