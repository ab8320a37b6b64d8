"""Step that copies an image into one with a halo of zeros, or back."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import Reads, Step, StepPrinter, View, Writes
from builder.compiler.lower.steps.printing import format_list, format_two_view_call


@dataclass(frozen=True)
class RepackStep(Step):
    """A copy of a dense NHWC tensor into a View with a halo of zeros, or back."""

    kernel_table = "fused"

    input: Reads[View]
    output: Writes[View]
    batch: int
    size: tuple[int, int]
    channels: int
    halo: tuple[int, int, int, int]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        values: dict[str, object] = {"batch": self.batch, "size": format_list(self.size), "channels": self.channels}
        return format_two_view_call("repack", "repack", values, self.input, self.output, self.halo)
