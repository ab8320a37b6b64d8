"""An HLO module's computations and instructions, by id and by name."""

from __future__ import annotations

from typing import Any


class HloIndex:
    """An index of a CompilationResultProto's module by id and by name, which are unique among its instructions."""

    def __init__(self, result: Any) -> None:
        module = result.hlo_module.hlo_module
        self.computations: dict[int, Any] = {c.id: c for c in module.computations}
        self.entry: Any = self.computations.get(module.entry_computation_id)
        self.instructions: dict[int, Any] = {}
        self.names: dict[str, Any] = {}
        self.owners: dict[int, Any] = {}
        """Computation of an instruction, by the instruction's id."""
        for computation in module.computations:
            for instruction in computation.instructions:
                self.instructions[instruction.id] = instruction
                self.names[instruction.name] = instruction
                self.owners[instruction.id] = computation

    def get_operands(self, instruction: Any) -> list[Any]:
        return [self.instructions[i] for i in instruction.operand_ids]

    def get_called(self, instruction: Any) -> list[Any]:
        """Return the computations an instruction calls: a fusion, a reducer, branches, a loop's condition and body."""
        return [self.computations[i] for i in instruction.called_computation_ids]

    def get_root(self, computation: Any) -> Any:
        """Return the instruction that computes the value of ``computation``."""
        return self.instructions[computation.root_id]
