"""Program: a compiled graph as a typed list of steps over one arena and one block of weights, and its state.

Both paths of ``lower`` build one, and ``emit`` prints it as C. Offsets and sizes are in bytes, strides in elements. XLA
compiles a variable that is written into one more parameter and one more result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from builder.compiler.lower.steps.base import Buffer, Steps, align_offset, move_buffers
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph, GraphPort


@dataclass(frozen=True)
class Weight:
    """A constant's bytes and their offset in the weights."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class BoundPort:
    """A feed or fetch and the buffer that ``cf_run`` copies it to or from; one in the space "feed" is not copied."""

    spec: TensorSpec
    buffer: Buffer


@dataclass(frozen=True)
class BoundState:
    """A variable that lasts from call to call, at ``offset`` in the state.

    It is copied to ``read`` before the steps run and from ``write`` after them. ``first``: its initial value.
    """

    spec: TensorSpec
    offset: int
    read: Buffer
    write: Buffer
    first: Buffer


@dataclass(frozen=True)
class Program:
    """A compiled graph. ``arena_touched``: the bytes at the arena's beginning that every run touches; 0 if unknown.

    ``parts``: how often the steps run, each time for one input of a batch; 0 where they are for the whole batch. The
    specs of feeds and fetches are the batch's, their buffers those of one part. ``dense_end``: the numbers of the first
    layer that such a batch runs for all inputs together, and of the step after the last one; None where none is.
    """

    steps: Steps
    feeds: tuple[BoundPort, ...]
    fetches: tuple[BoundPort, ...]
    weights: tuple[Weight, ...]
    arena_size: int
    weights_size: int
    states: tuple[BoundState, ...] = ()
    arena_touched: int = 0
    parts: int = 0
    dense_end: tuple[int, int] | None = None

    @property
    def state_size(self) -> int:
        """The bytes of the state, whose variables have no gaps between them."""
        return sum(state.spec.size for state in self.states)

    def with_buffers(self, move: Callable[[Buffer], Buffer]) -> Program:
        """Return the program with every buffer of its steps, feeds and fetches moved."""
        feeds, fetches = (
            tuple(replace(port, buffer=move(port.buffer)) for port in ports) for ports in (self.feeds, self.fetches)
        )
        steps = move_buffers(self.steps, lambda buffer, _: move(buffer))
        return replace(self, steps=steps, feeds=feeds, fetches=fetches)


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
