"""Buffer that holds each fetch: a leaf of the root of the HLO module."""

from __future__ import annotations

from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower.buffers import BufferPlan
from builder.compiler.lower.hlo_index import HloIndex
from builder.compiler.lower.steps.base import Buffer

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
            space, offset, _ = self.plan.allocations[allocation]
            return Buffer(space, offset + assigned.offset, assigned.size)
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
