"""XLA's own steps in terms of the values that each reads and writes, independent of XLA's plan of memory.

XLA makes one kernel of a small loop such as that of ``tf.unique``. Such a kernel names all the memory of its loop,
parts of which share a place. That memory stays as XLA laid it out, as the kernel's own scratch; its inputs and outputs
are copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.broadcasts import find_broadcast
from builder.compiler.lower.buffers import BufferResolver, plan_buffers
from builder.compiler.lower.hlo import Dag, Value, make_intermediate, require_entry
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import ALIGNMENT, Buffer, Step, align_offset, move_buffers
from builder.compiler.lower.steps.control_step import CallStep, ConditionalStep, WhileStep
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.kernel_step import KernelStep, RngStep


@dataclass(frozen=True)
class InnerLoopStep:
    """A kernel over memory that begins at 0, except for its constants; ``inputs`` and ``outputs`` are offsets there.

    ``results``: the numbers of the loop's results that are outputs. Values passed on unchanged are not results.
    """

    name: str
    kernel: KernelStep
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    results: tuple[int, ...]
    scratch: Buffer

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """Constants that the kernel reads."""
        return tuple(dict.fromkeys(b for b in self.kernel.buffers if b.space == "weights"))

    @property
    def scratch_size(self) -> int:
        """Bytes of scratch memory."""
        return self.scratch.size

    def replace_buffers(self, reads: Sequence[Buffer], writes: Sequence[Buffer], scratch: Buffer | None) -> CallStep:
        """Return the copies and the kernel over other memory; ``reads`` are the inputs, then the constants."""
        assert scratch is not None

        def inside(buffer: Buffer) -> Buffer:
            return replace(buffer, offset=scratch.offset + buffer.offset)

        constants = dict(zip(self.constants, reads[len(self.inputs) :], strict=True))
        kernel = move_buffers(self.kernel, lambda b, _: constants[b] if b in constants else inside(b))
        return CallStep(
            self.name,
            (
                *(_make_copy(self.name, read, inside(own)) for read, own in zip(reads, self.inputs, strict=False)),
                kernel,
                *(_make_copy(self.name, inside(own), write) for own, write in zip(self.outputs, writes, strict=True)),
            ),
        )


def _make_copy(name: str, source: Buffer, target: Buffer) -> CopyStep:
    return CopyStep(f"{name} copy", source, target, 1, (target.size,), (1,), target_strides=(1,))


class InnerLoopFinder:
    """A finder of the kernels of a CompilationResultProto that have a loop inside."""

    def __init__(self, result: Any) -> None:
        self.resolver = BufferResolver(result, plan_buffers(result))

    def find_inner_loop(self, step: KernelStep) -> tuple[InnerLoopStep, tuple[Buffer, ...], tuple[Buffer, ...]] | None:
        """Return the step, its reads and its writes in XLA's plan; None for any other kernel.

        Raises LowerError if the kernel does not name one of its inputs or outputs.
        """
        instruction = self.resolver.index.names.get(step.name)
        if instruction is None or instruction.opcode != "call":
            return None
        leaves = [b for o in self.resolver.index.get_operands(instruction) for b in self._list_leaves(o)]
        inputs = tuple(dict.fromkeys(b for b in leaves if b.space == "arena"))
        results = self._list_results(instruction)
        outputs = tuple(b for i, b in enumerate(self._list_leaves(instruction)) if i in results)
        packed = pack_buffers([b for b in step.buffers if b.space == "arena"])
        if not {*inputs, *outputs} <= packed.keys():
            raise LowerError(f"{step.name} does not name all that goes in and out")
        size = max(align_offset(b.offset + b.size) for b in packed.values())
        kernel = move_buffers(step, lambda b, _: packed.get(b, b))
        scratch = Buffer("arena", 0, size)
        places = tuple(packed[b] for b in inputs), tuple(packed[b] for b in outputs)
        loop = InnerLoopStep(step.name, kernel, *places, results, scratch)
        return loop, (*inputs, *loop.constants), outputs

    def _list_results(self, instruction: Any) -> tuple[int, ...]:
        """List the results that something reads, in order; XLA reads a value that the loop keeps at its old place."""
        if not instruction.shape.tuple_shapes:
            return (0,)
        others = self.resolver.index.owners[instruction.id].instructions
        parts = {o.tuple_index for o in others if list(o.operand_ids) == [instruction.id]}
        return tuple(sorted(parts))

    def _list_leaves(self, instruction: Any) -> Iterator[Buffer]:
        parts = len(instruction.shape.tuple_shapes)
        for index in [(i,) for i in range(parts)] if parts else [()]:
            yield self.resolver.find_buffer(instruction, index)


def pack_buffers(buffers: Sequence[Buffer]) -> dict[Buffer, Buffer]:
    """Pack the buffers from offset 0 on; those that share memory share it in the same way."""
    packed: dict[Buffer, Buffer] = {}
    start = end = -1  # the bounds of a group that shares memory, in XLA's plan
    moved = size = 0
    for buffer in sorted(set(buffers), key=lambda b: (b.offset, b.size)):
        if buffer.offset >= end:
            start = buffer.offset - buffer.offset % ALIGNMENT
            moved, end = align_offset(size), start
        packed[buffer] = replace(buffer, offset=moved + buffer.offset - start)
        end = max(end, buffer.offset + buffer.size)
        size = max(size, moved + end - start)
    return packed


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
