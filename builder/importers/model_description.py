"""The description of a model that was read: its ports, and further facts from its graph.

The graph reveals how it scales images, which op computes each output, at which lengths it runs, and which inputs it
tests for NaN, which it treats as a missing number.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from builder.base.tf import load_graph, reference_session
from builder.config import FeedSpec, FetchSpec, ModelSpec, Source
from builder.importers.draft_image import find_family
from builder.importers.graph import FrozenGraph, GraphPort
from builder.importers.input_scaling import find_scaling
from builder.importers.loaded import LoadedModel
from builder.importers.model_import import freeze_model, open_source
from builder.importers.ports import ASSUMED_SIDE, LENGTHS, GraphFacts, ModelPorts, PortInfo, read_image_size
from builder.importers.rewrite import find_reachable, map_node_inputs, node_of
from builder.importers.variables_state import assign_variables

_TRANSPARENT = frozenset({"Cast", "Identity", "IdentityN", "Reshape", "Squeeze"})
"""Ops that leave the values of a tensor as they are."""
_UNKNOWN = frozenset({"Case", "If", "PartitionedCall", "StatelessIf", "StatelessWhile", "While", "XlaCallModule"})


def describe_model(source: Source, path: Path, *, thorough: bool = False) -> ModelPorts:
    """Read the inputs and outputs of the model at ``path``, or raise ImportModelError.

    The model is frozen, which takes longer, if it leaves lengths open or ``thorough`` is true.
    """
    loaded = open_source(source, path)
    open_lengths = any(port.has_open_length for port in loaded.ports.feeds)
    if loaded.ports.have_strings or not (thorough or open_lengths):
        return loaded.ports
    if source.format == "graph_def":  # Freezing it needs the names of its ports.
        names = [[port.name for port in ports] for ports in (loaded.ports.feeds, loaded.ports.fetches)]
        loaded = open_source(source, path, tuple(map(FeedSpec, names[0])), tuple(map(FetchSpec, names[1])))
    return replace(loaded.ports, facts=_study_graph(loaded, source, LENGTHS if open_lengths else LENGTHS[:1]))


def find_facts(graph: FrozenGraph) -> GraphFacts:
    """Find the facts in ``graph``."""
    definition = graph.read_reference()
    nodes = {node.name: node for node in definition.node}
    images = [port for port in graph.feeds if len(port.spec.shape) == 4 and port.spec.shape[3] in (1, 3)]
    scalings = (find_scaling(definition, port.spec.name, port.tensor) for port in images)
    endings = {port.spec.name: _find_ending(nodes, port.tensor) for port in graph.fetches}
    known = {name: op for name, op in endings.items() if op not in _UNKNOWN}
    missing = find_missing_values(definition, graph.feeds)
    return GraphFacts(tuple(filter(None, scalings)), known, find_family(nodes), missing=missing)


def _study_graph(loaded: LoadedModel, source: Source, lengths: Sequence[int]) -> GraphFacts | None:
    """Freeze the model, and run it if it leaves lengths open; return None if it cannot be frozen as it is."""
    for length in lengths:
        feeds = tuple(_choose_feed(port, length) for port in loaded.ports.feeds)
        spec = ModelSpec(Path("model.toml"), "model", "1", source, feeds=feeds)
        # A build reports why a model cannot be frozen; here, only less is known.
        with contextlib.suppress(Exception), tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            graph = freeze_model(loaded, spec, Path(folder))
            if len(lengths) == 1 or _can_run(graph):
                return replace(find_facts(graph), shapes={feed.name: feed.shape for feed in feeds if feed.shape})
    return None


def _choose_feed(port: PortInfo, length: int) -> FeedSpec:
    if port.value is not None or port.shape is None:
        return FeedSpec(port.name, value=None if port.value is None else (port.value,))
    size = ASSUMED_SIDE if read_image_size(port.shape) else length
    return FeedSpec(port.name, tuple(dim or (size if i else 1) for i, dim in enumerate(port.shape)))


def _can_run(graph: FrozenGraph) -> bool:
    """Return whether TensorFlow computes only non-empty answers to zeros."""
    zeros = {port.tensor: np.zeros(port.spec.shape, port.spec.dtype) for port in graph.feeds}
    loaded = load_graph(graph.read_reference())
    with reference_session(loaded) as session:
        assign_variables(loaded, session, graph.first_state())
        return all(np.size(value) for value in session.run([port.tensor for port in graph.fetches], zeros))


def _find_ending(nodes: Mapping[str, Any], tensor: str) -> str:
    """Return the op that computes the values of ``tensor``."""
    while True:
        name, _, index = tensor.partition(":")
        node = nodes[name]
        if node.op not in _TRANSPARENT or not node.input:
            return str(node.op)
        tensor = node.input[int(index or 0)]  # Of these ops, only IdentityN has several outputs.


_TESTS = frozenset({"Bucketize", "IsFinite", "IsInf", "IsNan"})
_COMPARISONS = frozenset({"Equal", "NotEqual"})
"""Comparisons of a tensor with itself that test for NaN."""

_CARRIERS = frozenset({
    "Add", "AddV2", "Cast", "ConcatV2", "Div", "ExpandDims", "GatherV2", "Identity", "Mul", "Neg", "Pack", "RealDiv",
    "Reshape", "Slice", "Split", "SplitV", "Squeeze", "StridedSlice", "Sub", "Tile", "Transpose", "Unpack",
})  # fmt: skip
"""Ops that pass a NaN of their input on to their output."""


def find_missing_values(definition: Any, feeds: Sequence[GraphPort]) -> tuple[str, ...]:
    """Return the names of the floating-point ``feeds`` that a GraphDef tests for NaN, or sorts into buckets."""
    names = {node_of(port.tensor): port.spec.name for port in feeds if port.spec.dtype.startswith("float")}
    carried = map_node_inputs((node for node in definition.node if node.op in _CARRIERS), control=False)
    tested = find_reachable(_find_tested(definition.node), carried | {node: [] for node in names})
    return tuple(name for node, name in names.items() if node in tested)


def _find_tested(nodes: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the nodes whose first output is tested for NaN."""
    for node in nodes:
        itself = node.op in _COMPARISONS and node.input[0] == node.input[1]
        if node.op in _TESTS or itself:
            yield node_of(node.input[0])
