"""XLA's own steps in terms of values: which value each one reads and writes, whatever memory XLA gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from builder.errors import LowerError
from builder.lower.broadcasts import find_broadcast
from builder.lower.enclosed import EnclosedStep, Enclosures
from builder.lower.fused_steps import BroadcastStep, GatherStep
from builder.lower.hlo import Dag, Value, intermediate, require_entry
from builder.lower.program import Program, Step
from builder.lower.steps import (
    Buffer,
    CombinedNmsStep,
    ConvolutionStep,
    CopyStep,
    DotStep,
    FftStep,
    KernelStep,
    NmsStep,
    SortStep,
    TopKStep,
)

WITH_SCRATCH = (SortStep, FftStep, NmsStep, CombinedNmsStep, EnclosedStep)
FIELDS: Mapping[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    ConvolutionStep: (("input", "kernel"), ("output",)),
    DotStep: (("lhs", "rhs"), ("out",)),
    CopyStep: (("source",), ("target",)),
    TopKStep: (("values",), ("out_values", "out_indices")),
    FftStep: (("input", "tables"), ("output",)),
    NmsStep: (("boxes", "scores"), ("indices", "kept", "found")),
    CombinedNmsStep: (("boxes", "scores"), ("out_boxes", "out_scores", "out_classes", "found")),
    BroadcastStep: (("source", "other"), ("target",)),
    GatherStep: (("indices", "table"), ("output",)),
}
"""The fields that a step reads, and those that it writes. KernelStep and SortStep have lists of buffers."""
_STRAIGHT = (KernelStep, SortStep, *FIELDS)


@dataclass(frozen=True, eq=False)
class Thunk:
    """A step of the faithful program. ``sources``: a Value, the Buffer of a constant, or the bytes of a new one."""

    number: int
    step: Step | EnclosedStep
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    sources: tuple[Value | Buffer | bytes, ...]
    outputs: tuple[Value | None, ...]
    """The value of every write, as ``base``; None for one that nothing names."""

    def aliased(self, write: int) -> list[int]:
        """The reads through whose pointer the kernel stores ``write``."""
        return [i for i, buffer in enumerate(self.reads) if buffer == self.writes[write] and buffer.size]

    def rebuilt(self, reads: list[Buffer], writes: list[Buffer], scratch: Buffer | None) -> Step:
        """The step over other memory."""
        step = self.step
        if isinstance(step, EnclosedStep):
            assert scratch is not None
            return step.rebuilt(reads, writes, scratch)
        if isinstance(step, KernelStep):
            return replace(step, buffers=(*reads, *writes))
        fields: dict[str, Any] = {"scratch": scratch} if isinstance(step, WITH_SCRATCH) else {}
        if isinstance(step, SortStep):
            return replace(step, buffers=tuple(writes), **fields)
        read, written = FIELDS[type(step)]
        fields |= zip(read, reads, strict=False)  # of a BroadcastStep, there may be no other
        fields |= zip(written, writes, strict=True)
        return replace(step, **fields)

    @property
    def scratch_size(self) -> int:
        return self.step.scratch.size if isinstance(self.step, WITH_SCRATCH) else 0


def read_thunks(result: Any, dag: Dag, faithful: Program, enclose: bool = False) -> list[Thunk]:
    """The top-level thunks of a CompilationResultProto, in XLA's order; ``enclose``: kernels with a loop inside too.

    Raises LowerError, saying why, for what is not one straight line of steps over whole values.
    """
    memory = _Memory()
    for number, port in enumerate(faithful.feeds):
        memory.store(port.buffer, dag.parameters[number].base)
    thunks: list[Thunk] = []
    enclosures = Enclosures(result) if enclose else None
    last = {step.name: number for number, step in enumerate(faithful.steps)}
    for number, (step, proto) in enumerate(zip(faithful.steps, result.thunk_sequence.thunks, strict=True)):
        if not isinstance(step, _STRAIGHT):
            raise LowerError(f"{step.name} is a {type(step).__name__.removesuffix('Step').lower()}")
        made: Step | EnclosedStep = step
        if enclosures is not None and isinstance(step, KernelStep) and (enclosed := enclosures.enclose(step)):
            made, reads, writes = enclosed
        else:
            reads, writes = _ports(step, proto)
            if any(write.overlaps(read) and write != read for write in writes for read in reads):
                raise LowerError(f"{step.name} writes over a part of what it reads")
        sources = tuple(memory.load(buffer, step.name) for buffer in reads)
        outputs: tuple[Value | None, ...]
        if last[step.name] == number:
            results = made.results if isinstance(made, EnclosedStep) else range(len(writes))
            outputs = tuple(_output(dag, step.name, i, len(writes)) for i in results)
        else:  # one of several thunks that make a value together, such as the copy before a sort
            outputs = tuple(intermediate(step.name) for _ in writes)
        if isinstance(made, KernelStep) and len(writes) == 1:
            broadcast = find_broadcast(made, reads, sources, writes[0], outputs[0])
            if broadcast is not None:
                known = dict(zip(reads, sources, strict=True))
                made, (reads, _) = broadcast, _ports(broadcast, proto)
                sources = tuple(known[buffer] for buffer in reads)
        for buffer, output in zip(writes, outputs, strict=True):
            memory.store(buffer, output)
        thunks.append(Thunk(number, made, reads, writes, sources, outputs))
    return thunks


def _ports(step: Step, proto: Any) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    if isinstance(step, KernelStep):
        count = len(proto.kernel_thunk.arguments_buffers)
        return step.buffers[:count], step.buffers[count:]
    if isinstance(step, SortStep):
        return step.buffers, step.buffers
    values = ([getattr(step, name) for name in names] for names in FIELDS[type(step)])
    read, written = (tuple(buffer for buffer in buffers if buffer is not None) for buffers in values)
    return read, written


def _output(dag: Dag, name: str, index: int, count: int) -> Value | None:
    value = require_entry(dag, name)
    if value.op == "tuple":
        return value.operands[index].base
    if value.dtype:
        if count != 1:
            raise LowerError(f"{name} has {count} results and one value")
        return value.base
    parts = [v for v in dag.values if v.op == "get-tuple-element" and v.operands[0] is value]
    return next((v for v in parts if v.instruction.tuple_index == index), None)


class _Memory:
    """What every place of XLA's arena holds at the moment."""

    def __init__(self) -> None:
        self.written: dict[Buffer, Value | None] = {}

    def store(self, buffer: Buffer, value: Value | None) -> None:
        for other in [b for b in self.written if b.overlaps(buffer)]:
            del self.written[other]
        self.written[buffer] = value

    def load(self, buffer: Buffer, name: str) -> Value | Buffer:
        if buffer.space == "weights":
            return buffer
        found = self.written.get(buffer)
        if found is None:
            raise LowerError(f"{name} reads memory that no whole value lies in")
        return found
