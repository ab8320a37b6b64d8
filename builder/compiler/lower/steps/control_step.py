"""Steps with other steps inside them: calls, branches and loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Steps
from builder.compiler.lower.steps.printing import format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class CallStep(Step):
    """A call of the steps in ``body``."""

    body: Steps

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        return [f"TRY({printer.print_function(self.body)}(context));"]


@dataclass(frozen=True)
class ConditionalStep(Step):
    """A choice of one branch by ``index``: a bool (true is branch 0) or an int32 (out of range is the last)."""

    index: Reads[Buffer]
    branches: tuple[Steps, ...]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        branches = [printer.print_function(branch) for branch in self.branches]
        if self.index.size == 1:
            index = f"*(const uint8_t *){format_pointer(self.index)} ? 0 : 1"
        else:
            index = f"*(const int32_t *){format_pointer(self.index)}"
        last = len(branches) - 1
        lines = [f"const int32_t index = {index};", f"switch (index < 0 || index > {last} ? {last} : index) {{"]
        for number, branch in enumerate(branches):
            lines.append(f"case {number}: TRY({branch}(context)); break;")
        return [*lines, "}"]


@dataclass(frozen=True)
class WhileStep(Step):
    """A loop over ``body``, ``trip_count`` times or while ``condition`` leaves a true byte in ``predicate``."""

    condition: Steps
    predicate: Reads[Buffer]
    body: Steps
    trip_count: int | None

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        body = printer.print_function(self.body)
        if self.trip_count is not None:
            return [f"for (int64_t i = 0; i < {self.trip_count}; i++) TRY({body}(context));"]
        condition = printer.print_function(self.condition)
        return [
            "for (;;) {",
            f"    TRY({condition}(context));",
            f"    if (!*(const uint8_t *){format_pointer(self.predicate)}) break;",
            f"    TRY({body}(context));",
            "}",
        ]


@reads_thunk("call_thunk")
def _read_call(name: str, thunk: Any, reader: ThunkReader) -> Step:
    return CallStep(name, reader.read_sequence(thunk.called_sequence))


@reads_thunk("conditional_thunk")
def _read_conditional(name: str, thunk: Any, reader: ThunkReader) -> Step:
    index = reader.resolve_slice(thunk.branch_index_buffer, name)
    return ConditionalStep(name, index, tuple(reader.read_sequence(s) for s in thunk.branch_sequences))


@reads_thunk("while_thunk")
def _read_while(name: str, thunk: Any, reader: ThunkReader) -> Step:
    return WhileStep(
        name,
        condition=reader.read_sequence(thunk.cond_sequence),
        predicate=reader.resolve_slice(thunk.cond_buffer, name),
        body=reader.read_sequence(thunk.body_sequence),
        trip_count=thunk.trip_count.value if thunk.trip_count.contains_value else None,
    )
