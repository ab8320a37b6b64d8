"""XLA's own steps in terms of values: which value each one reads and writes, whatever memory XLA gave it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, assert_never

from builder.errors import LowerError
from builder.lower.broadcasts import find_broadcast
from builder.lower.enclosed import EnclosedStep, Enclosures
from builder.lower.fused_steps import BroadcastStep, GatherStep
from builder.lower.hlo import Dag, Value, intermediate, require_entry
from builder.lower.program import CallStep, Program
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

StraightStep = (
    KernelStep
    | ConvolutionStep
    | DotStep
    | CopyStep
    | SortStep
    | TopKStep
    | FftStep
    | NmsStep
    | CombinedNmsStep
    | BroadcastStep
    | GatherStep
)
WITH_SCRATCH = (SortStep, FftStep, NmsStep, CombinedNmsStep, EnclosedStep)


@dataclass(frozen=True, eq=False)
class Thunk:
    """A step of the faithful program. ``sources``: a Value, the Buffer of a constant, or the bytes of a new one."""

    number: int
    step: StraightStep | EnclosedStep
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    sources: tuple[Value | Buffer | bytes, ...]
    outputs: tuple[Value | None, ...]
    """The value of every write, as ``base``; None for one that nothing names."""

    def aliased(self, write: int) -> list[int]:
        """The reads through whose pointer the kernel stores ``write``."""
        return [i for i, buffer in enumerate(self.reads) if buffer == self.writes[write] and buffer.size]

    def rebuilt(self, reads: list[Buffer], writes: list[Buffer], scratch: Buffer | None) -> StraightStep | CallStep:
        """The step over other memory."""
        step = self.step
        match step:
            case EnclosedStep():
                assert scratch is not None
                return step.rebuilt(reads, writes, scratch)
            case KernelStep():
                return replace(step, buffers=(*reads, *writes))
            case ConvolutionStep():
                return replace(step, input=reads[0], kernel=reads[1], output=writes[0])
            case DotStep():
                return replace(step, lhs=reads[0], rhs=reads[1], out=writes[0])
            case CopyStep():
                return replace(step, source=reads[0], target=writes[0])
            case BroadcastStep():
                return replace(step, source=reads[0], other=reads[1] if len(reads) > 1 else None, target=writes[0])
            case GatherStep():
                return replace(step, indices=reads[0], table=reads[1], output=writes[0])
            case SortStep():
                assert scratch is not None
                return replace(step, buffers=tuple(writes), scratch=scratch)
            case FftStep():
                assert scratch is not None
                return replace(step, input=reads[0], tables=reads[1], output=writes[0], scratch=scratch)
            case NmsStep():
                assert scratch is not None
                indices, kept, found = writes
                return replace(
                    step, boxes=reads[0], scores=reads[1], indices=indices, kept=kept, found=found, scratch=scratch
                )
            case CombinedNmsStep():
                assert scratch is not None
                boxes, scores, classes, found = writes
                return replace(
                    step,
                    boxes=reads[0],
                    scores=reads[1],
                    out_boxes=boxes,
                    out_scores=scores,
                    out_classes=classes,
                    found=found,
                    scratch=scratch,
                )
            case TopKStep():
                return replace(step, values=reads[0], out_values=writes[0], out_indices=writes[1])
            case _:
                assert_never(step)

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
        if not isinstance(step, StraightStep):
            raise LowerError(f"{step.name} is a {type(step).__name__.removesuffix('Step').lower()}")
        made: StraightStep | EnclosedStep = step
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


def _ports(step: StraightStep, proto: Any) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    match step:
        case KernelStep():
            count = len(proto.kernel_thunk.arguments_buffers)
            return step.buffers[:count], step.buffers[count:]
        case ConvolutionStep():
            return (step.input, step.kernel), (step.output,)
        case DotStep():
            return (step.lhs, step.rhs), (step.out,)
        case CopyStep():
            return (step.source,), (step.target,)
        case BroadcastStep():
            return (step.source, *(() if step.other is None else (step.other,))), (step.target,)
        case GatherStep():
            return (step.indices, step.table), (step.output,)
        case SortStep():
            return step.buffers, step.buffers
        case FftStep():
            return (step.input, step.tables), (step.output,)
        case NmsStep():
            return (step.boxes, step.scores), (step.indices, step.kept, step.found)
        case CombinedNmsStep():
            return (step.boxes, step.scores), (step.out_boxes, step.out_scores, step.out_classes, step.found)
        case TopKStep():
            return (step.values,), (step.out_values, step.out_indices)
        case _:
            assert_never(step)


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
