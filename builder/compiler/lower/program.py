"""Program: a compiled graph as a typed list of steps over one arena and one block of weights.

Both paths of ``lower`` build one, and ``emit`` prints it as C. Offsets and sizes are in bytes, strides in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from builder.compiler.lower.steps.base import Buffer, Steps, move_buffers
from builder.config.tensor import TensorSpec


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

    It is copied to ``read`` before the steps run and from ``write`` after them. ``first``: its initial value."""

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
