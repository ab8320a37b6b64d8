"""What the steps of a program leave in memory, and of which op in the model each is the value."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.arrays import Array
from builder.lower import Lowered
from builder.lower.fused_steps import AttentionStep, LayerStep, NormStep, PoolStep, RepackStep
from builder.lower.hlo_index import HloIndex
from builder.lower.program import Step, walk
from builder.lower.shapes import ELEMENT_TYPES, strides
from builder.lower.steps import Buffer, KernelStep
from builder.lower.thunks import FIELDS
from builder.quantise.observe import picture


@dataclass(frozen=True, eq=False)
class Left:
    """The value that a step leaves. ``after``: the number of the step that then begins, as ``observe.watch`` counts.

    ``op``: the op in the model whose value it is.
    """

    step: Step
    op: str
    after: int
    shape: Any  # xla.ShapeProto

    def read(self, arena: NDArray[np.uint8]) -> Array:
        """A copy, in logical order."""
        match self.step:
            case LayerStep():
                shape = (self.step.batch, *self.step.out_size, self.step.out_channels)
                assert self.step.output is not None, "lower with whole=True"
                return picture(self.step.output, shape, arena).copy()
            case PoolStep():
                return picture(
                    self.step.output, (self.step.batch, *self.step.out_size, self.step.channels), arena
                ).copy()
            case NormStep():
                return picture(self.step.output, (self.step.batch, *self.step.size, self.step.channels), arena).copy()
        buffer = _written(self.step)
        assert buffer is not None
        name, size = ELEMENT_TYPES[self.shape.element_type]
        items = arena[buffer.offset : buffer.offset + buffer.size].view(name)
        steps = tuple(size * stride for stride in strides(self.shape))
        return np.lib.stride_tricks.as_strided(items, tuple(self.shape.dimensions), steps, writeable=False).copy()


def left_by(lowered: Lowered, index: HloIndex) -> tuple[Left, ...]:
    """Of each op in the model the last step that leaves its value, in the order of the steps.

    Not of steps in loops and branches, nor of values that have a size of their own, or no numbers of NumPy's.
    """
    found = {one.op: one for one in _candidates(lowered, index)}
    return tuple(sorted(found.values(), key=lambda one: one.after))


def _candidates(lowered: Lowered, index: HloIndex) -> Iterator[Left]:
    after = 0
    for step, note in zip(lowered.program.steps, lowered.notes, strict=True):
        after += len(walk((step,)))
        instruction = index.names.get(step.name)
        if instruction is None:
            continue
        op = note.gives or instruction.metadata.op_name
        if op and (isinstance(step, LayerStep | PoolStep | NormStep) or _is_whole(_written(step), instruction.shape)):
            yield Left(step, op, after, instruction.shape)


def _is_whole(buffer: Buffer | None, shape: Any) -> bool:
    """Whether ``buffer`` holds an array of ``shape`` and nothing else."""
    name, size = ELEMENT_TYPES.get(shape.element_type, ("", 0))
    if buffer is None or buffer.space != "arena" or name in ("", "bfloat16") or any(shape.is_dynamic_dimension):
        return False
    return buffer.size == size * int(np.prod(shape.dimensions, dtype=np.int64))


def _written(step: Step) -> Buffer | None:
    """The one buffer that a step of XLA's writes; None where it is another step, or writes several."""
    if isinstance(step, KernelStep):
        return step.buffers[-1]
    _, names = FIELDS.get(type(step), ((), ()))
    return getattr(step, names[0]) if len(names) == 1 else None


def read_rightly(left: Left, lefts: Sequence[Left], right: Container[Left], lowered: Lowered) -> bool:
    """Whether the first value that is known after ``left``, and made of it, is among those that are ``right``.

    Then ``left`` is no wrong value but another one than TensorFlow's: XLA may move a factor to a later step.
    """
    steps = lowered.program.steps
    known = {id(one.step): one for one in lefts}
    step: Step = left.step
    place = next(i for i, one in enumerate(steps) if one is step)
    while True:
        memory = _memory_of(step)
        if memory is None:
            return False
        later = range(place + 1, len(steps))
        reader = next((i for i in later if any(buffer.overlaps(memory) for buffer in _buffers(steps[i]))), None)
        if reader is None:
            return False
        step, place = steps[reader], reader
        if id(step) in known:
            return known[id(step)] in right


def _memory_of(step: Step) -> Buffer | None:
    match step:
        case LayerStep():
            return step.stored.buffer
        case PoolStep() | NormStep() | AttentionStep() | RepackStep():
            return step.output.buffer
    return _written(step)


def _buffers(part: object) -> Iterator[Buffer]:
    """Every buffer that a step names, at any depth."""
    if isinstance(part, Buffer):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _buffers(one)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _buffers(getattr(part, field.name))
