"""Flow of values between steps, and their places in the arena meanwhile; it is used by drawings alone.

A step inside a loop, branch or call counts as the step that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, walk_steps


@dataclass
class BufferLife:
    """A value: ``size`` bytes at ``offset``, from the step ``first`` to the step ``last``, both included.

    ``made_by``: the steps that wrote it; -1 is a feed. ``scratch``: whether only one step uses it.
    """

    offset: int
    size: int
    first: int
    last: int
    made_by: list[int]
    scratch: bool = False

    def overlaps_buffer(self, buffer: Buffer) -> bool:
        return self.offset < buffer.offset + buffer.size and buffer.offset < self.offset + self.size

    def contains_part(self, buffer: Buffer) -> bool:
        """Return whether ``buffer`` is a part of the value and not all of it."""
        return (
            self.offset <= buffer.offset
            and buffer.offset + buffer.size <= self.offset + self.size
            and buffer.size < self.size
        )


@dataclass
class MemoryFlow:
    """``edges``: (from, to) by number of the outermost steps; -1 is the feeds, the number of steps is the fetches."""

    lives: list[BufferLife] = field(default_factory=list)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    live: list[BufferLife] = field(default_factory=list)
    read_now: set[tuple[int, int]] = field(default_factory=set)
    """Pairs (offset, size) that the step reads whose results are written next."""

    def add_write(self, step: int, buffer: Buffer, *, scratch: bool = False) -> None:
        """Record a write, which ends the values that it overlaps; a part of a value just read is written in place."""
        for life in self.live:
            if life.contains_part(buffer) and (life.offset, life.size) in self.read_now:
                life.made_by.append(step)
                return
        self.live = [life for life in self.live if not life.overlaps_buffer(buffer)]
        new = BufferLife(buffer.offset, buffer.size, step, step, [step], scratch)
        self.lives.append(new)
        self.live.append(new)

    def add_read(self, step: int, buffer: Buffer) -> None:
        self.read_now.add((buffer.offset, buffer.size))
        for life in self.live:
            if life.overlaps_buffer(buffer) and not life.scratch:
                life.last = step
                self.edges |= {(maker, step): None for maker in life.made_by if maker != step}


def trace_memory_flow(program: Program) -> MemoryFlow:
    """Return the flow through the outermost steps of ``program``."""
    flow = MemoryFlow()
    for buffer in _list_arena_buffers(
        (*(port.buffer for port in program.feeds), *(state.read for state in program.states))
    ):
        flow.add_write(-1, buffer)
    for number, step in enumerate(program.steps):
        flow.read_now.clear()
        inner_steps = walk_steps((step,))
        reads = [buffer for inner in inner_steps for buffer in inner.reads]
        if any(buffer.space == "feed" for buffer in reads):
            flow.edges[-1, number] = None
        for buffer in _list_arena_buffers(reads):
            flow.add_read(number, buffer)
        for buffer in _list_arena_buffers(buffer for inner in inner_steps for buffer in inner.writes):
            flow.add_write(number, buffer)
        for buffer in _list_arena_buffers(buffer for inner in inner_steps for buffer in inner.scratch_buffers):
            flow.add_write(number, buffer, scratch=True)
    for buffer in (*(port.buffer for port in program.fetches), *(state.write for state in program.states)):
        flow.add_read(len(program.steps), buffer)
    return flow


def _list_arena_buffers(buffers: Iterable[Buffer]) -> Iterable[Buffer]:
    """Return the buffers in the arena, each once."""
    return dict.fromkeys(buffer for buffer in buffers if buffer.space == "arena" and buffer.size)
