"""Transposed convolutions as ordinary ones, each of which computes some rows and columns of the output.

With a stride of s, the input's pixels are s apart, with zeros between them, and the kernel passes over all of that. So
only every s-th of an output pixel's taps meets a pixel, and which ones follows from its row and column modulo s. The
pixels with the same remainders are an ordinary convolution by a part of the kernel, and lie s apart in the output.

Adjacent columns may be computed as one pixel with all their channels, which lie side by side, where that is no more
work: a 2x2 kernel with a stride of 2 is then two layers with twice the channels, and not four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.geometry import PANEL, Geometry
from builder.compiler.lower.steps.base import View


@dataclass(frozen=True)
class AxisPhase:
    """Every s-th of an axis' outputs, ``count`` from number ``first`` on: their ``taps`` and their own padding."""

    first: int
    count: int
    taps: range
    padding: int


@dataclass(frozen=True)
class OutputPart:
    """Rows and columns of a layer's output, ``step`` apart, as an ordinary layer of ``geometry`` and ``padding``.

    ``columns``: those that are computed as one, each with its part of the kernel.
    """

    geometry: Geometry
    padding: tuple[int, int]
    step: tuple[int, int] = (1, 1)
    rows: AxisPhase | None = None
    columns: tuple[AxisPhase, ...] = ()

    @property
    def joined(self) -> int:
        """Number of output pixels that are computed as one."""
        return max(1, len(self.columns))

    def cut_view(self, view: View) -> View:
        """Return the view of these pixels in an image of the whole output."""
        if self.rows is None:
            return view
        first = view.first + self.rows.first * view.row + self.columns[0].first * view.pixel
        return replace(view, first=first, row=view.row * self.step[0], pixel=view.pixel * self.step[1])

    def cut_weights(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weights [KH, KW, C, OC] of the ordinary layer, of those of the whole one."""
        if self.rows is None:
            return weights
        height, width = self.geometry.kernel_size
        cut = np.zeros((height, width, weights.shape[2], self.joined, weights.shape[3]), weights.dtype)
        for number, phase in enumerate(self.columns):
            start = self.padding[1] - phase.padding
            taps = np.ix_(self.rows.taps, phase.taps)
            cut[:, start : start + len(phase.taps), :, number] = weights[taps]
        return cut.reshape(height, width, weights.shape[2], -1)


def split_axis(outputs: int, taps: int, upsampling: int, padding: int) -> tuple[AxisPhase, ...]:
    """Split the ``outputs`` of an axis by their remainder modulo ``upsampling``.

    Output o meets tap k at number (o + k - padding) / upsampling of the input, if that is whole.
    """
    return tuple(
        AxisPhase(
            first,
            -(-(outputs - first) // upsampling),
            range((padding - first) % upsampling, taps, upsampling),
            (padding - first) // upsampling,
        )
        for first in range(min(upsampling, outputs))
    )


def split_output(geometry: Geometry, padding: tuple[int, int], *, gapless: bool) -> list[OutputPart]:
    """Split a layer's output into the parts that ordinary layers compute; one that is not transposed has one part.

    ``gapless``: whether the pixels of its output have nothing between them, and so may be computed as one.
    """
    if geometry.upsampling == (1, 1):
        return [OutputPart(geometry, padding)]
    (height, width), (down, across) = geometry.out_size, geometry.upsampling
    rows = split_axis(height, geometry.kernel_size[0], down, padding[0])
    columns = split_axis(width, geometry.kernel_size[1], across, padding[1])
    apart = [(phase,) for phase in columns]
    together = [columns] if gapless and width % across == 0 else apart
    groups = min(together, apart, key=lambda groups: sum(_count_products(geometry, group) for group in groups))
    return [_make_part(geometry, row, group) for row in rows for group in groups]


def find_halo(geometry: Geometry, in_size: tuple[int, int], padding: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the pixels of padding (top, left, bottom, right) that the parts of a layer read around its input."""
    before, after = [0, 0], [0, 0]
    for axis in (0, 1):
        sizes = (geometry.out_size[axis], geometry.kernel_size[axis], geometry.upsampling[axis], padding[axis])
        for phase in split_axis(*sizes):
            before[axis] = max(before[axis], phase.padding)
            after[axis] = max(after[axis], phase.count - 1 + len(phase.taps) - phase.padding - in_size[axis])
    return before[0], before[1], after[0], after[1]


def _find_reach(group: Sequence[AxisPhase]) -> tuple[int, int]:
    """Return the padding and the width of the kernel that has the taps of all of ``group``."""
    padding = max(phase.padding for phase in group)
    return padding, padding + max(len(phase.taps) - phase.padding for phase in group)


def _count_products(geometry: Geometry, group: Sequence[AxisPhase]) -> int:
    """Count the products of a row of pixels of ``group`` as one, for an input channel and a row of the kernel."""
    channels = len(group) * geometry.out_channels
    return group[0].count * _find_reach(group)[1] * -(-channels // PANEL) * PANEL


def _make_part(geometry: Geometry, rows: AxisPhase, columns: tuple[AxisPhase, ...]) -> OutputPart:
    left, width = _find_reach(columns)
    part = replace(
        geometry,
        out_size=(rows.count, columns[0].count),
        out_channels=geometry.out_channels * len(columns),
        kernel_size=(len(rows.taps), width),
        upsampling=(1, 1),
    )
    return OutputPart(part, (rows.padding, left), geometry.upsampling, rows, columns)
