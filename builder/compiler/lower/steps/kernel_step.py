"""A call of one of XLA's fused kernels, and the state of XLA's random number generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.escape import c_name
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class KernelStep(Step):
    """A call of one of XLA's fused kernels: arguments, then results, once per work group."""

    kernel: str
    arguments: Reads[tuple[Buffer, ...]]
    results: Writes[tuple[Buffer, ...]]
    workgroups: tuple[int, int, int]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        groups = ", ".join(str(n) for n in self.workgroups)
        if not self.buffers:
            return [f"TRY(cf_call_kernel(context, {self.kernel}, NULL, 0, {groups}));"]
        arguments = [f"    {{{format_pointer(b)}, {b.size}u}}," for b in self.buffers]
        return [
            "const cf_kernel_argument arguments[] = {",
            *arguments,
            "};",
            f"TRY(cf_call_kernel(context, {self.kernel}, arguments, COUNT(arguments), {groups}));",
        ]

    @property
    def c_declarations(self) -> tuple[str, ...]:
        """C declarations of XLA's functions that the step calls."""
        return (f"extern void *{c_name(self.kernel)}(const cf_call_frame *frame);",)


@reads_thunk("kernel_thunk")
def _read_kernel(name: str, thunk: Any, reader: ThunkReader) -> Step:
    groups = thunk.num_workgroups
    return KernelStep(
        name,
        thunk.kernel_name,
        tuple(reader.resolve_shaped_slice(proto, name) for proto in thunk.arguments_buffers),
        tuple(reader.resolve_shaped_slice(proto, name) for proto in thunk.results_buffers),
        (max(1, groups.x), max(1, groups.y), max(1, groups.z)),
    )


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
