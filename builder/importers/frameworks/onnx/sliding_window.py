"""Windows that move over an image or a signal, whose spatial dimensions follow batch and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Window:
    """The window of a convolution or a pooling, by spatial dimension; ``pads`` holds (before, after)."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """How far each dimension of the window reaches, with its dilation."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))


def read_window(shape: Sequence[int], sizes: Sequence[int], keys: dict[str, Any]) -> Window:
    """Return the window of ``sizes`` over the spatial ``shape``, with the attributes ``keys`` of its node.

    Attributes that do not concern it are ignored.
    """
    rank = len(sizes)
    strides = tuple(keys.get("strides") or [1] * rank)
    dilations = tuple(keys.get("dilations") or [1] * rank)
    window = Window(tuple(sizes), strides, dilations, ((0, 0),) * rank)
    mode = keys.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = keys.get("pads") or [0] * 2 * rank
        padding = tuple(zip(pads[:rank], pads[rank:], strict=True))
    elif mode == "VALID":
        padding = window.pads
    else:
        totals = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, stride, extent in zip(shape, strides, window.extents, strict=True)
        ]
        padding = tuple((t // 2, t - t // 2) if mode == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals)
    if keys.get("ceil_mode"):
        padding = tuple(
            (before, after + _round_up(size + before + after - extent, stride, size + before))
            for size, (before, after), stride, extent in zip(shape, padding, strides, window.extents, strict=True)
        )
    return Window(window.sizes, strides, dilations, padding)


def _round_up(span: int, stride: int, end: int) -> int:
    """Return how much to add so that a last window fits that would begin before ``end``."""
    rest = -span % stride
    return rest if (span + rest) // stride * stride < end else 0


def make_spatial_names(rank: int) -> tuple[str, str, str]:
    """Return the names of the dimensions of images, kernels and results, for a convolution by JAX."""
    spatial = "DHW"[3 - rank :] if rank <= 3 else "".join(chr(ord("a") + i) for i in range(rank))
    return "NC" + spatial, "OI" + spatial, "NC" + spatial


def flip_kernel(kernel: Any, groups: int) -> Any:
    """Return the kernel [c, o / groups, ...] of a transposed convolution as one that moves over a dilated image."""
    spatial = kernel.shape[2:]
    parts = kernel.reshape(groups, kernel.shape[0] // groups, kernel.shape[1], *spatial).swapaxes(1, 2)
    whole = parts.reshape(groups * kernel.shape[1], kernel.shape[0] // groups, *spatial)
    return whole[(slice(None), slice(None), *[slice(None, None, -1)] * len(spatial))]


def count_positions(size: int, extent: int, stride: int, pads: tuple[int, int]) -> int:
    """Return the number of places at which a window fits."""
    return int(np.floor((size + sum(pads) - extent) / stride)) + 1
