"""Step that adds images of bytes in fixed point."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import KernelKind, Reads, Step, StepPrinter, View, Writes
from builder.compiler.lower.steps.printing import format_kernel_call, format_list, format_view
from builder.compiler.lower.steps.quantisation import RoundedImage


@dataclass(frozen=True)
class AdditionStep(Step):
    """``output = clamp(((first * factors[0] + second * factors[1] + start) >> shift) + zero, low, high)`` in int32.

    All are bytes from 0 to 255, stored as RoundedImage says, whose ``by.zero`` is ``zero``. int32 wraps around.
    """

    kernel_table = "fused"

    first: Reads[View]
    second: Reads[View]
    output: Writes[RoundedImage]
    batch: int
    size: tuple[int, int]
    channels: int
    factors: tuple[int, int]
    start: int
    shift: int
    low: int
    high: int

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        return frozenset({"INTEGER"})

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        values = {
            "batch": self.batch,
            "size": format_list(self.size),
            "channels": self.channels,
            "first": format_view(self.first),
            "second": format_view(self.second),
            "output": format_view(self.output.view),
            "halo": format_list(self.output.halo),
            "factors": format_list(self.factors),
            "start": self.start,
            "shift": self.shift,
            "zero": self.output.by.zero,
            "low": self.low,
            "high": self.high,
        }
        buffers = {"first": self.first.buffer, "second": self.second.buffer, "output": self.output.view.buffer}
        return format_kernel_call("addition", "fused->add", values, buffers)
