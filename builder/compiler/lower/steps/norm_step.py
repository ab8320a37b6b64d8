"""Step that computes layer normalisation."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import Buffer, KernelKind, Reads, Step, StepPrinter, View, Writes
from builder.compiler.lower.steps.printing import format_float, format_kernel_call, format_list, format_view


@dataclass(frozen=True)
class NormStep(Step):
    """``output = (input - mean) / sqrt(variance + epsilon) * gamma + beta``, over the channels of each pixel.

    If it is not ``centred``, the mean counts as 0, so that the variance is the mean square. ``gamma`` and ``beta`` are
    channel vectors, as Epilogue has them. ``halo``: zeros that this step writes around its output.
    """

    kernel_table = "fused"

    input: Reads[View]
    output: Writes[View]
    gamma: Reads[Buffer]
    beta: Reads[Buffer]
    batch: int
    size: tuple[int, int]
    channels: int
    epsilon: float
    centred: bool
    halo: tuple[int, int, int, int]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        values = {
            "batch": self.batch,
            "size": format_list(self.size),
            "channels": self.channels,
            "input": format_view(self.input),
            "output": format_view(self.output),
            "halo": format_list(self.halo),
            "epsilon": format_float(self.epsilon),
            "centred": int(self.centred),
        }
        buffers = {"input": self.input.buffer, "gamma": self.gamma, "beta": self.beta, "output": self.output.buffer}
        return format_kernel_call("norm", "fused->norm", values, buffers)

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        return frozenset({"NORM"})
