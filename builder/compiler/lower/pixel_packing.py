"""Adjacent output pixels as one pixel with more channels, where a layer of integer sums has few channels.

A register tile is 8, 16 or 32 output channels wide, and a layer with fewer leaves the rest of it idle. Two pixels side
by side have twice as many: their windows overlap, and one window as wide as both has every input of both. Weights that
one of the pixels does not have are zeros. The sums are the same integers, in the same memory.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.geometry import MAX_SUM, PANEL, Geometry
from builder.compiler.lower.packing import MAX_TAPS

_WIDTHS = (8, 16)
"""The channels of the narrowest register tiles: on most processors, and on those with the widest registers."""

_NO_SLOWER = 1.1
"""The largest acceptable ratio of work after joining to work before, where registers are narrow."""


def choose_joined_pixels(geometry: Geometry) -> int:
    """Choose how many adjacent output pixels to join for the least work, over all widths of registers together."""
    if geometry.groups != 1 or geometry.dilation[1] != 1:
        return 1
    narrow = _NO_SLOWER * _count_work(geometry, 1, _WIDTHS[0])
    possible = [1]
    for pixels in range(2, PANEL // geometry.out_channels + 1):
        wide = join_pixels(geometry, pixels)
        fits = wide.k <= MAX_SUM and wide.kernel_size[0] * wide.kernel_size[1] <= MAX_TAPS
        if geometry.out_size[1] % pixels == 0 and fits and _count_work(geometry, pixels, _WIDTHS[0]) <= narrow:
            possible.append(pixels)
    return min(possible, key=lambda pixels: sum(_count_work(geometry, pixels, width) for width in _WIDTHS))


def _count_work(geometry: Geometry, pixels: int, width: int) -> float:
    """Count the products of a pixel, including those with zeros."""
    wide = join_pixels(geometry, pixels)
    return wide.k * -(-wide.out_channels // width) * width / pixels


def join_pixels(geometry: Geometry, pixels: int) -> Geometry:
    """Return the geometry of the layer that computes ``pixels`` adjacent output pixels as one."""
    (height, width), (rows, columns), (down, across) = geometry.out_size, geometry.kernel_size, geometry.stride
    return replace(
        geometry,
        out_size=(height, width // pixels),
        out_channels=geometry.out_channels * pixels,
        kernel_size=(rows, columns + (pixels - 1) * across),
        stride=(down, across * pixels),
    )


def join_weights(weights: NDArray[np.float32], pixels: int, across: int) -> NDArray[np.float32]:
    """Return weights [KH, KW, C, OC] as [KH, KW + (pixels - 1) * across, C, pixels * OC]; ``across``: the stride."""
    height, width, inner, outer = weights.shape
    wide = np.zeros((height, width + (pixels - 1) * across, inner, pixels, outer), weights.dtype)
    for pixel in range(pixels):
        wide[:, pixel * across : pixel * across + width, :, pixel] = weights
    return wide.reshape(*wide.shape[:3], pixels * outer)
