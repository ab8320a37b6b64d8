"""XLA's buffer assignment as offsets in one arena and one block of weights, for the faithful path.

Every allocation keeps its own place. Values that XLA lets share memory still share it, and kernels that write through
an argument's pointer stay right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.hlo_index import HloIndex
from builder.compiler.lower.hlo_literals import encode_literal
from builder.compiler.lower.program import Weight
from builder.compiler.lower.steps.base import ALIGNMENT, Buffer, Space

SLACK = 256
"""Bytes behind the arena of a program with layers: a vector load of an image's last channels may reach past it."""


@dataclass(frozen=True)
class BufferPlan:
    allocations: dict[int, tuple[Space, int, int]]
    """Space, offset and size of each allocation, by its index."""
    parameters: dict[int, Buffer]
    """Buffer of each parameter of the entry computation, by its number."""
    weights: tuple[Weight, ...]
    arena_size: int
    weights_size: int

    def resolve_slice(self, proto: Any, what: str) -> Buffer:
        """Return the buffer of a BufferAllocationSliceProto; raise LowerError for one outside the plan."""
        index = proto.buffer_allocation_index
        if index not in self.allocations:
            raise LowerError(f"{what} uses buffer {index}, which belongs to one kernel.")
        space, offset, size = self.allocations[index]
        if proto.offset + proto.size > size:
            raise LowerError(f"{what} reaches past buffer {index}: {proto.offset}+{proto.size} > {size}.")
        return Buffer(space, offset + proto.offset, proto.size)


def align_offset(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def plan_buffers(result: Any, share: bool = True) -> BufferPlan:
    """Place every allocation of a CompilationResultProto; equal constants are stored once if ``share``."""
    index = HloIndex(result)
    logical = {b.id: b for b in result.buffer_assignment.logical_buffers}
    allocations: dict[int, tuple[Space, int, int]] = {}
    parameters: dict[int, Buffer] = {}
    weights: list[Weight] = []
    shared: dict[bytes, int] = {}
    arena = end_of_weights = 0
    for allocation in result.buffer_assignment.buffer_allocations:
        if allocation.is_thread_local:  # it lies on a kernel's own stack
            continue
        if allocation.is_constant:
            source = index.instructions[logical[allocation.assigned[0].logical_buffer_id].defined_at.instruction_id]
            data = encode_literal(source.literal, allocation.size, source.name)
            offset = shared.get(data) if share else None
            if offset is None:
                offset = shared[data] = end_of_weights
                weights.append(Weight(offset, data))
                end_of_weights = align_offset(end_of_weights + len(data))
            allocations[allocation.index] = ("weights", offset, allocation.size)
            continue
        allocations[allocation.index] = ("arena", arena, allocation.size)
        if allocation.is_entry_computation_parameter:
            if list(allocation.parameter_shape_index):
                raise LowerError("a feed that is a tuple cannot be bound; give the model plain tensors.")
            parameters[allocation.parameter_number] = Buffer("arena", arena, allocation.size)
        arena = align_offset(arena + allocation.size)
    return BufferPlan(allocations, parameters, tuple(weights), arena, end_of_weights)
