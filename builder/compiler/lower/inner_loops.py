"""Kernels with a loop inside, which XLA makes of a small loop such as that of ``tf.unique``.

Such a kernel names all the memory of its loop, parts of which share a place. That memory stays as XLA laid it out, as
the kernel's own scratch; its inputs and outputs are copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.buffers import BufferResolver, plan_buffers
from builder.compiler.lower.steps.base import ALIGNMENT, Buffer, align_offset, move_buffers
from builder.compiler.lower.steps.control_step import CallStep
from builder.compiler.lower.steps.copy_step import CopyStep
from builder.compiler.lower.steps.kernel_step import KernelStep


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
