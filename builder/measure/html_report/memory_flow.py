"""Which step makes what another reads, and where it lies in the arena meanwhile: for pictures, and for nothing else.

A step inside a loop, branch or call counts as the step that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, walk


@dataclass
class Life:
    """A value: ``size`` bytes at ``offset``, from the step ``first`` to the step ``last``, both included.

    ``made_by``: the steps that wrote it; -1 is a feed. ``scratch``: of use to one step alone.
    """

    offset: int
    size: int
    first: int
    last: int
    made_by: list[int]
    scratch: bool = False

    def overlaps(self, buffer: Buffer) -> bool:
        return self.offset < buffer.offset + buffer.size and buffer.offset < self.offset + self.size

    def holds(self, buffer: Buffer) -> bool:
        """Whether ``buffer`` is a part of it and not all."""
        return (
            self.offset <= buffer.offset
            and buffer.offset + buffer.size <= self.offset + self.size
            and buffer.size < self.size
        )


@dataclass
class Flow:
    """``edges``: (from, to) by number of the outermost steps; -1 is the feeds, the number of steps is the fetches."""

    lives: list[Life] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    live: list[Life] = field(default_factory=list)
    read_now: set[tuple[int, int]] = field(default_factory=set)
    """(offset, size) of what the step reads whose results are written next."""

    def write(self, step: int, buffer: Buffer, *, scratch: bool = False) -> None:
        """All that lies in the way ends; but a part of what the step reads, too, is written in place."""
        for life in self.live:
            if life.holds(buffer) and (life.offset, life.size) in self.read_now:
                life.made_by.append(step)
                return
        self.live = [life for life in self.live if not life.overlaps(buffer)]
        made = Life(buffer.offset, buffer.size, step, step, [step], scratch)
        self.lives.append(made)
        self.live.append(made)

    def read(self, step: int, buffer: Buffer) -> None:
        self.read_now.add((buffer.offset, buffer.size))
        for life in self.live:
            if life.overlaps(buffer) and not life.scratch:
                life.last = step
                self.edges |= {(maker, step): None for maker in life.made_by if maker != step}


def flow_of(program: Program) -> Flow:
    """The flow through the outermost steps of ``program``."""
    flow = Flow()
    for buffer in _arena((*(port.buffer for port in program.feeds), *(state.read for state in program.states))):
        flow.write(-1, buffer)
    for number, step in enumerate(program.steps):
        flow.read_now.clear()
        inside = walk((step,))
        reads = [buffer for one in inside for buffer in one.reads]
        if any(buffer.space == "feed" for buffer in reads):
            flow.edges[-1, number] = None
        for buffer in _arena(reads):
            flow.read(number, buffer)
        for buffer in _arena(buffer for one in inside for buffer in one.writes):
            flow.write(number, buffer)
        for buffer in _arena(buffer for one in inside for buffer in one.scratch_buffers):
            flow.write(number, buffer, scratch=True)
    for buffer in (*(port.buffer for port in program.fetches), *(state.write for state in program.states)):
        flow.read(len(program.steps), buffer)
    return flow


def _arena(buffers: Iterable[Buffer]) -> Iterable[Buffer]:
    """Those in the arena, each once."""
    return dict.fromkeys(buffer for buffer in buffers if buffer.space == "arena" and buffer.size)
