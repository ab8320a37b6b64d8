"""Step that pools images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.steps.base import Reads, Step, StepPrinter, View, Writes
from builder.compiler.lower.steps.printing import format_float, format_list, format_two_view_call
from builder.compiler.lower.steps.quantisation import Quantisation


@dataclass(frozen=True)
class PoolStep(Step):
    """Max or average pooling, or the mean over the whole image; ``scale`` multiplies a sum.

    ``rounded``: both images of a maximum are of bytes, as in RoundedImage.
    """

    kernel_table = "fused"

    kind: Literal["max", "sum"]
    input: Reads[View]
    output: Writes[View]
    batch: int
    in_size: tuple[int, int]
    channels: int
    out_size: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]  # at the top and left; pixels outside do not count
    scale: float
    halo: tuple[int, int, int, int]
    rounded: Quantisation | None = None

    def c_lines(self, printer: StepPrinter) -> list[str]:
        values: dict[str, object] = {
            "maximum": int(self.kind == "max"),
            "scale": format_float(self.scale),
            "batch": self.batch,
            "channels": self.channels,
            "in": format_list(self.in_size),
            "out": format_list(self.out_size),
            "window": format_list(self.window),
            "stride": format_list(self.stride),
            "padding": format_list(self.padding),
        }
        if self.rounded is not None:
            values |= {"rounded": 1, "zero": self.rounded.zero}
        return format_two_view_call("pooling", "pool", values, self.input, self.output, self.halo)
