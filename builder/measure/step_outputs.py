"""Values that the steps of a program leave in memory, and the op in the model that each belongs to."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.hlo_proto import ELEMENT_TYPES, HloIndex, compute_shape_strides
from builder.compiler.lower.steps.base import Buffer, Step, walk_steps
from builder.compiler.lower.steps.image_step import NormStep, PoolStep
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.verify.step_probes import view_image


@dataclass(frozen=True, eq=False)
class StepOutput:
    """A value that a step leaves, and ``op``, the op in the model that it belongs to.

    ``after``: the number of the step that then begins, as ``observe.observe_steps`` counts.
    """

    step: Step
    op: str
    after: int
    shape: Any  # xla.ShapeProto

    def read(self, arena: NDArray[np.uint8]) -> Array:
        """Return a copy, in logical order."""
        step = self.step
        match step:
            case LayerStep():
                assert step.output is not None, "lower with whole=True"
                return view_image(step.output, step.geometry.out_shape, arena).copy()
            case PoolStep():
                return view_image(step.output, (step.batch, *step.out_size, step.channels), arena).copy()
            case NormStep():
                return view_image(step.output, (step.batch, *step.size, step.channels), arena).copy()
        buffer = _find_written_buffer(step)
        assert buffer is not None
        name, size, _ = ELEMENT_TYPES[self.shape.element_type]
        items = arena[buffer.offset : buffer.offset + buffer.size].view(name)
        steps = tuple(size * stride for stride in compute_shape_strides(self.shape))
        return np.lib.stride_tricks.as_strided(items, tuple(self.shape.dimensions), steps, writeable=False).copy()


def list_step_outputs(lowered: LoweredProgram, index: HloIndex) -> tuple[StepOutput, ...]:
    """Return the last step that leaves the value of each op in the model, in the order of the steps.

    Steps in loops and branches are left out, and so are values of an open size or of a type that NumPy lacks.
    """
    last_outputs = {one.op: one for one in _list_candidates(lowered, index)}
    return tuple(sorted(last_outputs.values(), key=lambda one: one.after))


def _list_candidates(lowered: LoweredProgram, index: HloIndex) -> Iterator[StepOutput]:
    after = 0
    for step, note in zip(lowered.program.steps, lowered.notes, strict=True):
        after += len(walk_steps((step,)))
        instruction = index.names.get(step.name)
        if instruction is None:
            continue
        op, shape = note.gives or instruction.metadata.op_name, instruction.shape
        is_image = isinstance(step, LayerStep | PoolStep | NormStep)
        if op and (is_image or _is_whole(_find_written_buffer(step), shape)):
            yield StepOutput(step, op, after, instruction.shape)


def _is_whole(buffer: Buffer | None, shape: Any) -> bool:
    """Return whether ``buffer`` holds an array of ``shape`` and nothing else."""
    name, size, _ = ELEMENT_TYPES.get(shape.element_type, ("", 0, ""))
    if buffer is None or buffer.space != "arena" or name in ("", "bfloat16") or any(shape.is_dynamic_dimension):
        return False
    return buffer.size == size * int(np.prod(shape.dimensions, dtype=np.int64))


def _find_written_buffer(step: Step) -> Buffer | None:
    """Return the one buffer that a step writes; None where it writes none or several."""
    return step.writes[0] if len(step.writes) == 1 else None


def is_read_correctly(
    left: StepOutput, lefts: Sequence[StepOutput], right: Container[StepOutput], lowered: LoweredProgram
) -> bool:
    """Return whether the first known value after ``left`` that is made of it is among those that are ``right``.

    Then ``left`` is not wrong, but another value than TensorFlow's: XLA may move a factor to a later step.
    """
    steps = lowered.program.steps
    outputs = {id(output.step): output for output in lefts}
    step: Step = left.step
    later = iter(steps)
    next(other for other in later if other is step)  # go to the step itself
    while memory := step.stored.buffer if isinstance(step, LayerStep) else _find_written_buffer(step):
        reader = next((other for other in later if _touches_memory(other, memory)), None)
        if reader is None or id(reader) in outputs:
            return reader is not None and outputs[id(reader)] in right
        step = reader
    return False


def _touches_memory(step: Step, memory: Buffer) -> bool:
    """Return whether ``step``, or a step inside it, reads or writes any of ``memory``."""
    return any(buffer.overlaps_buffer(memory) for inner in walk_steps((step,)) for buffer in inner.buffers)
