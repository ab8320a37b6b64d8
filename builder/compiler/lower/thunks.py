"""XLA's own steps in terms of the values that each reads and writes, independent of XLA's plan of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.broadcasts import find_broadcast
from builder.compiler.lower.hlo import Dag, Value, make_intermediate, require_entry
from builder.compiler.lower.inner_loops import InnerLoopFinder, InnerLoopStep
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer, Step
from builder.compiler.lower.steps.control_step import CallStep, ConditionalStep, WhileStep
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.compiler.lower.steps.rng_step import RngStep


@dataclass(frozen=True, eq=False)
class Thunk:
    """A step of the faithful program. ``sources``: Values, Buffers of constants, or the bytes of new constants."""

    number: int
    step: Step | InnerLoopStep
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    sources: tuple[Value | Buffer | bytes, ...]
    outputs: tuple[Value | None, ...]
    """The value of every write, as ``base``; None for a write without a name."""

    def list_aliased_reads(self, write: int) -> list[int]:
        """List the reads through whose pointer the kernel stores ``write``."""
        return [i for i, buffer in enumerate(self.reads) if buffer == self.writes[write] and buffer.size]


def read_thunks(result: Any, dag: Dag, faithful: Program, enclose: bool = False) -> list[Thunk]:
    """Read the top-level thunks of a CompilationResultProto, in XLA's order.

    ``enclose``: whether kernels may have a loop inside. Raises LowerError, with the reason, for a program that is not
    one straight line of steps over whole values.
    """
    memory = _ArenaContents()
    for number, port in enumerate(faithful.feeds):
        memory.store_value(port.buffer, dag.parameters[number].base)
    thunks: list[Thunk] = []
    enclosures = InnerLoopFinder(result) if enclose else None
    last = {step.name: number for number, step in enumerate(faithful.steps)}
    for number, step in enumerate(faithful.steps):
        if isinstance(step, CallStep | ConditionalStep | WhileStep | RngStep):
            raise LowerError(f"{step.name} is a {type(step).__name__.removesuffix('Step').lower()}")
        converted: Step | InnerLoopStep = step
        if enclosures is not None and isinstance(step, KernelStep) and (enclosed := enclosures.find_inner_loop(step)):
            converted, reads, writes = enclosed
        else:
            reads, writes = step.reads, step.writes
            if any(write.overlaps_buffer(read) and write != read for write in writes for read in reads):
                raise LowerError(f"{step.name} writes over a part of what it reads")
        sources = tuple(memory.load_value(buffer, step.name) for buffer in reads)
        outputs: tuple[Value | None, ...]
        if last[step.name] == number:
            results = converted.results if isinstance(converted, InnerLoopStep) else range(len(writes))
            outputs = tuple(_find_output(dag, step.name, i, len(writes)) for i in results)
        else:  # Several thunks make a value together, as a copy and a sort do.
            outputs = tuple(make_intermediate(step.name) for _ in writes)
        if isinstance(converted, KernelStep) and len(writes) == 1:
            broadcast = find_broadcast(converted, reads, sources, writes[0], outputs[0])
            if broadcast is not None:
                by_buffer = dict(zip(reads, sources, strict=True))
                converted, reads = broadcast, broadcast.reads
                sources = tuple(by_buffer[buffer] for buffer in reads)
        for buffer, output in zip(writes, outputs, strict=True):
            memory.store_value(buffer, output)
        thunks.append(Thunk(number, converted, reads, writes, sources, outputs))
    return thunks


def _find_output(dag: Dag, name: str, index: int, count: int) -> Value | None:
    value = require_entry(dag, name)
    if value.op == "tuple":
        return value.operands[index].base
    if value.dtype:
        if count != 1:
            raise LowerError(f"{name} has {count} results and one value")
        return value.base
    parts = [v for v in dag.values if v.op == "get-tuple-element" and v.operands[0] is value]
    return next((v for v in parts if v.instruction.tuple_index == index), None)


class _ArenaContents:
    """The values that are in XLA's arena at the moment, by buffer."""

    def __init__(self) -> None:
        self.written: dict[Buffer, Value | None] = {}

    def store_value(self, buffer: Buffer, value: Value | None) -> None:
        for other in [b for b in self.written if b.overlaps_buffer(buffer)]:
            del self.written[other]
        self.written[buffer] = value

    def load_value(self, buffer: Buffer, name: str) -> Value | Buffer:
        if buffer.space == "weights":
            return buffer
        value = self.written.get(buffer)
        if value is None:
            raise LowerError(f"{name} reads memory that no whole value lies in")
        return value
