"""State of XLA's random number generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.compiler.lower.steps.base import Buffer, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class RngStep(Step):
    """A store of the generator's 128-bit state, which then advances by ``delta``."""

    state: Writes[Buffer]
    delta: int

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        return [f"cf_advance_rng(context, {format_pointer(self.state)}, {self.delta}u);"]


@reads_thunk("rng_get_and_update_state_thunk")
def _read_rng_get_and_update_state(name: str, thunk: Any, reader: ThunkReader) -> Step:
    return RngStep(name, reader.resolve_slice(thunk.state_buffer, name), thunk.delta)
