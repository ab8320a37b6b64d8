"""A layer's sizes, and everything that follows from them alone: its operations, and which kernels can run it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Algorithm = Literal[
    "direct", "depthwise", "winograd2", "winograd4", "integer", "integer_winograd4", "thin", "integer_depthwise"
]  # fmt: skip
"""``integer``: int8 weights times a layer's input rounded to bytes, summed as int32. ``integer_winograd4``: the same if
a processor multiplies bytes; if it multiplies only pairs of int16, float sums of the same numbers by Winograd's
algorithm, which saves more. ``integer_depthwise``: one filter of int8 for each channel of bytes. All others sum floats.
``thin``: for few output channels, with pixels in the lanes of the vectors."""

MAX_SUM = (2**31 - 1) // (255 * 127)
"""Maximum number of products of an input byte and an int8 weight whose sum fits into int32, whatever their values."""

PANEL = 16
"""Output channels that every kernel of layers computes together, and that a packed panel of weights holds: a cache line
of floats. CF_PANEL in runtime/fused/vector.h."""

THIN_CHANNELS = 8
"""CF_THIN_CHANNELS in runtime/fused/thin.h."""


def are_winograd_channels(in_channels: int) -> bool:
    """Return whether the Winograd kernels take so many input channels: at least a vector, and a multiple of four.

    These are the most lanes of a vector, and CF_FEW_TILES_KC in runtime/fused/winograd.h.
    """
    return in_channels >= 16 and in_channels % 4 == 0


def count_flop(outputs: int, k: int) -> int:
    """Count the floating-point operations of ``outputs`` sums of ``k`` products each; a multiply-add counts as two."""
    return 2 * outputs * k


@dataclass(frozen=True)
class Geometry:
    """A convolution's sizes; a dense layer is a 1x1 convolution on a 1 x rows image."""

    batch: int
    in_channels: int
    out_size: tuple[int, int]
    out_channels: int
    kernel_size: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    upsampling: tuple[int, int] = (1, 1)
    """The stride of a transposed convolution: the distance of the input's pixels, with zeros between them."""

    @property
    def k(self) -> int:
        """Number of products in each output's sum, KH * KW * input channels of a group: K of the matrix product."""
        return self.kernel_size[0] * self.kernel_size[1] * self.in_channels // self.groups

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        """Batch, rows, columns and channels of the output."""
        return self.batch, *self.out_size, self.out_channels

    @property
    def weights(self) -> int:
        """Number of weights."""
        return self.k * self.out_channels

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        outputs = self.batch * math.prod(self.out_size) * self.out_channels
        return count_flop(outputs, self.k) // math.prod(self.upsampling)

    def compute_span(self, axis: int, outputs: int) -> int:
        """Count the rows (``axis`` 0) or columns (1) of input that ``outputs`` rows or columns of output need."""
        return (outputs - 1) * self.stride[axis] + (self.kernel_size[axis] - 1) * self.dilation[axis] + 1

    @property
    def depthwise(self) -> bool:
        """True if every group has one input and one output channel, and there is more than one group."""
        return self.groups == self.in_channels == self.out_channels > 1

    @property
    def winograd(self) -> bool:
        """True if the Winograd kernels can run it, and few output channels do not leave most of their lanes idle."""
        unit = self.kernel_size == (3, 3) and self.stride == self.dilation == self.upsampling == (1, 1)
        return unit and self.groups == 1 and are_winograd_channels(self.in_channels) and not self.thin

    @property
    def thin(self) -> bool:
        """True if a group has so few output channels that most lanes of a vector of them would be idle."""
        return not self.depthwise and self.out_channels // self.groups <= THIN_CHANNELS

    @property
    def summable(self) -> bool:
        """True if integer GEMM can run it: one group, not transposed, and sums that fit into int32."""
        return self.groups == 1 and self.upsampling == (1, 1) and self.k <= MAX_SUM

    @property
    def label(self) -> str:
        """All sizes in a few characters, such as ``3x3 14x14x256-512``: the key of a tuning file."""

        def pair(name: str, values: tuple[int, int]) -> str:
            return "" if values == (1, 1) else f" {name}{values[0]}" + (f"x{values[1]}" * (values[0] != values[1]))

        height, width = self.kernel_size
        rest = pair("/", self.stride) + pair("dilation ", self.dilation) + pair("upsampling ", self.upsampling)
        rest += f" groups {self.groups}" * (self.groups > 1) + f" batch {self.batch}" * (self.batch > 1)
        return f"{height}x{width} {self.out_size[0]}x{self.out_size[1]}x{self.in_channels}-{self.out_channels}{rest}"
