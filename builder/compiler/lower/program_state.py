"""State in a program: XLA compiles a variable that is written into one more parameter and one more result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from builder.compiler.lower.buffers import align_offset
from builder.compiler.lower.program import BoundState, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.importers.graph import FrozenGraph, GraphPort


def list_state_ports(graph: FrozenGraph) -> tuple[tuple[GraphPort, ...], tuple[GraphPort, ...]]:
    """List the feeds and fetches of the compiled graph: its own, and then its variables."""
    return (*graph.feeds, *graph.states), (*graph.fetches, *graph.states)


def bind_state(program: Program, states: tuple[GraphPort, ...], first: Mapping[str, NDArray[Any]]) -> Program:
    """Make the last feeds and fetches of ``program`` its ``states``; ``first``: the initial values, by node."""
    if not states:
        return program
    count, offset, end = len(states), 0, program.weights_size
    bound, weights = [], list(program.weights)
    for port, read, write in zip(states, program.feeds[-count:], program.fetches[-count:], strict=True):
        data = first[port.tensor].tobytes()
        weights.append(Weight(end, data))
        bound.append(BoundState(port.spec, offset, read.buffer, write.buffer, Buffer("weights", end, len(data))))
        offset, end = offset + len(data), align_offset(end + len(data))
    return replace(
        program,
        feeds=program.feeds[:-count],
        fetches=program.fetches[:-count],
        weights=tuple(weights),
        weights_size=end,
        states=tuple(bound),
    )
