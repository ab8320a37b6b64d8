"""XLA's buffer assignment as offsets in one arena and one block of weights, for the faithful path.

Every allocation keeps its own place. Values that XLA lets share memory still share it, and kernels that write through
an argument's pointer stay right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.hlo_proto import HloIndex, encode_literal
from builder.compiler.lower.program import Weight
from builder.compiler.lower.steps.base import Buffer, align_offset
from builder.compiler.lower.weight_store import WeightStore

SLACK = 256
"""Bytes behind the arena of a program with layers: a vector load of an image's last channels may reach past it."""


@dataclass(frozen=True)
class BufferPlan:
    """A place for each allocation of XLA's, and the sizes of the arena and the weights."""

    allocations: dict[int, Buffer]
    """Buffer of each allocation, by its index."""
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
        whole = self.allocations[index]
        if proto.offset + proto.size > whole.size:
            raise LowerError(f"{what} reaches past buffer {index}: {proto.offset}+{proto.size} > {whole.size}.")
        return Buffer(whole.space, whole.offset + proto.offset, proto.size)


def plan_buffers(result: Any, share: bool = True) -> BufferPlan:
    """Place every allocation of a CompilationResultProto; equal constants are stored once if ``share``."""
    index = HloIndex(result)
    logical = {b.id: b for b in result.buffer_assignment.logical_buffers}
    allocations: dict[int, Buffer] = {}
    parameters: dict[int, Buffer] = {}
    store, arena = WeightStore(share), 0
    for allocation in result.buffer_assignment.buffer_allocations:
        if allocation.is_thread_local:  # it lies on a kernel's own stack
            continue
        if allocation.is_constant:
            source = index.instructions[logical[allocation.assigned[0].logical_buffer_id].defined_at.instruction_id]
            data = encode_literal(source.literal, allocation.size, source.name)
            allocations[allocation.index] = store.add_constant(data)
            continue
        allocations[allocation.index] = Buffer("arena", arena, allocation.size)
        if allocation.is_entry_computation_parameter:
            if list(allocation.parameter_shape_index):
                raise LowerError("a feed that is a tuple cannot be bound; give the model plain tensors.")
            parameters[allocation.parameter_number] = allocations[allocation.index]
        arena = align_offset(arena + allocation.size)
    return BufferPlan(allocations, parameters, tuple(store.weights), arena, store.size)


_TRANSPARENT = {"bitcast", "while", "optimization-barrier", "domain"}
"""Opcodes whose result lies where their operand lies, if XLA defines no value of their own."""


class BufferResolver:
    """A resolver of HLO values to the instruction that XLA's buffer assignment names as their definition."""

    def __init__(self, result: Any, plan: BufferPlan) -> None:
        self.index = index = HloIndex(result)
        self.plan = plan
        self.callers = {
            called: i for i in index.instructions.values() if i.opcode == "call" for called in i.called_computation_ids
        }
        defined = {
            b.id: (b.defined_at.instruction_id, tuple(b.defined_at.shape_index))
            for b in result.buffer_assignment.logical_buffers
        }
        self.values = {
            defined[a.logical_buffer_id]: (allocation.index, a)
            for allocation in result.buffer_assignment.buffer_allocations
            for a in allocation.assigned
        }

    def find_buffer(self, instruction: Any, index: tuple[int, ...]) -> Buffer:
        """Find the buffer of the leaf ``index`` of an instruction's (tuple) result."""
        if (instruction.id, index) in self.values:
            allocation, assigned = self.values[instruction.id, index]
            whole = self.plan.allocations[allocation]
            return Buffer(whole.space, whole.offset + assigned.offset, assigned.size)
        operands = self.index.get_operands(instruction)
        match instruction.opcode:
            case "tuple":
                return self.find_buffer(operands[index[0]], index[1:])
            case "get-tuple-element":
                return self.find_buffer(operands[0], (instruction.tuple_index, *index))
            case "call" | "conditional":
                return self.find_buffer(self.index.get_root(self.index.get_called(instruction)[0]), index)
            case "parameter" if (owner := self.index.owners[instruction.id].id) in self.callers:
                operand = self.index.get_operands(self.callers[owner])[instruction.parameter_number]
                return self.find_buffer(operand, index)
            case opcode if opcode in _TRANSPARENT:
                return self.find_buffer(operands[0], index)
        raise LowerError(
            f"fetch {instruction.name} ({instruction.opcode}) has no buffer of its own; report this model."
        )


def find_result_buffers(result: Any, plan: BufferPlan) -> list[tuple[Any, Buffer]]:
    """Find the ShapeProto and buffer of every output, in the order of the fetches."""
    resolver = BufferResolver(result, plan)
    root = resolver.index.get_root(resolver.index.entry)
    shapes = list(root.shape.tuple_shapes)
    if not shapes:
        return [(root.shape, resolver.find_buffer(root, ()))]
    return [(shape, resolver.find_buffer(root, (i,))) for i, shape in enumerate(shapes)]
