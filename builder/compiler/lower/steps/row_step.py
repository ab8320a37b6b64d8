"""Step that copies one row."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_pointer


@dataclass(frozen=True)
class RowStep(Step):
    """A copy of one of ``count`` rows of ``source`` to ``target``, which has a row's size.

    ``index`` is an int32 in the arena; past either end it means the row at that end.
    """

    index: Reads[Buffer]
    source: Reads[Buffer]
    target: Writes[Buffer]
    count: int

    def c_lines(self, printer: StepPrinter) -> list[str]:
        return [
            f"const int32_t index = *(const int32_t *){format_pointer(self.index)};",
            f"const size_t row = index < 0 ? 0u : index < {self.count} ? (size_t)index : {self.count - 1}u;",
            f"__builtin_memcpy({format_pointer(self.target)}, "
            f"(const uint8_t *){format_pointer(self.source)} + row * {self.target.size}u, {self.target.size}u);",
        ]
