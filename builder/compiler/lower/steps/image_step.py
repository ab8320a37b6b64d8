"""Steps over whole images besides layers: pooling, layer normalisation, and copies with a halo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.steps.base import Buffer, KernelKind, Reads, Step, StepPrinter, View, Writes
from builder.compiler.lower.steps.printing import (
    format_float,
    format_kernel_call,
    format_list,
    format_two_view_call,
    format_view,
)
from builder.compiler.lower.steps.quantisation import Quantisation


@dataclass(frozen=True)
class SumRounding:
    """Rounding of a sum of numbers that bytes stand for: ``clamp(round(number), low, high)``, all float32.

    ``number``: ``sum * factor + offset``, with halves to even; without ``factor`` the sum divided by the count of its
    pixels, with halves away from zero. ``least``: the number of byte 0.
    """

    least: int
    low: int
    high: int
    factor: float | None = None
    offset: float = 0.0


@dataclass(frozen=True)
class PoolStep(Step):
    """Max or average pooling, or the mean over the whole image; ``scale`` multiplies a sum.

    ``rounded``: both images are of bytes, as in RoundedImage; of a sum, ``sums`` says how it becomes a byte.
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
    sums: SumRounding | None = None

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        return frozenset() if self.rounded is None else frozenset({"INTEGER"})

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
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
        if (sums := self.sums) is not None:
            values |= {
                "scale": format_float(1.0 if sums.factor is None else sums.factor),
                "offset": format_float(sums.offset),
                "divided": int(sums.factor is None),
                "least": sums.least,
                "low": sums.low,
                "high": sums.high,
            }
        return format_two_view_call("pooling", "pool", values, self.input, self.output, self.halo)


NormKind = Literal["layer norm", "RMS norm", "softmax"]


@dataclass(frozen=True)
class NormStep(Step):
    """``output = (input - mean) / sqrt(variance + epsilon) * gamma + beta``, or the softmax, of each pixel's channels.

    Of an "RMS norm" the mean counts as 0, so that the variance is the mean square. ``gamma`` and ``beta`` are channel
    vectors, as Epilogue has them; a softmax has none. ``halo``: zeros that this step writes around its output.
    """

    kernel_table = "fused"

    input: Reads[View]
    output: Writes[View]
    gamma: Reads[Buffer | None]
    beta: Reads[Buffer | None]
    batch: int
    size: tuple[int, int]
    channels: int
    epsilon: float
    kind: NormKind
    halo: tuple[int, int, int, int]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        values = {
            "batch": self.batch,
            "size": format_list(self.size),
            "channels": self.channels,
            "input": format_view(self.input),
            "output": format_view(self.output),
            "halo": format_list(self.halo),
            "epsilon": format_float(self.epsilon),
            "centred": int(self.kind == "layer norm"),
            "softmax": int(self.kind == "softmax"),
        }
        buffers = {"input": self.input.buffer, "gamma": self.gamma, "beta": self.beta, "output": self.output.buffer}
        return format_kernel_call("norm", "fused->norm", values, buffers)

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        return frozenset({"NORM"})


_REPACK_FORMS = {
    "byte": "CF_REPACK_BYTES",
    "int8": "CF_REPACK_SIGNED",
    "uint8": "CF_REPACK_UNSIGNED",
    "int32": "CF_REPACK_CENTRED",
}


@dataclass(frozen=True)
class RepackStep(Step):
    """A copy of a dense NHWC tensor into a View with a halo of zeros, or back.

    With ``dtype`` "int8" or "uint8", of bytes from one form to the other: as a tensor has them, and as RoundedImage
    does. With "byte", of bytes in the latter form, to some channels of an image. With "int32", of numbers to which
    ``zero`` is added, to bytes as in RoundedImage. ``zero``: the byte of the halo.
    """

    kernel_table = "fused"

    input: Reads[View]
    output: Writes[View]
    batch: int
    size: tuple[int, int]
    channels: int
    halo: tuple[int, int, int, int]
    dtype: str = "float32"
    zero: int = 0

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        return frozenset() if self.dtype == "float32" else frozenset({"INTEGER"})

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        values: dict[str, object] = {"batch": self.batch, "size": format_list(self.size), "channels": self.channels}
        if self.dtype != "float32":
            values |= {"form": _REPACK_FORMS[self.dtype], "zero": self.zero}
        return format_two_view_call("repack", "repack", values, self.input, self.output, self.halo)
