"""Windows that move over an image or a signal, whose spatial dimensions follow batch and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Window:
    """The window of a convolution or a pooling, by spatial dimension; ``pads`` holds (before, after)."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The extent of the window in each dimension, with its dilation."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))

    def count_places(self, shape: Sequence[int]) -> list[int]:
        """Return the number of places in each dimension at which the window fits over ``shape``."""
        sides = zip(shape, self.pads, self.extents, self.strides, strict=True)
        return [(size + sum(pads) - extent) // stride + 1 for size, pads, extent, stride in sides]


def read_window(shape: Sequence[int], sizes: Sequence[int], keys: dict[str, Any]) -> Window:
    """Return the window of ``sizes`` over the spatial ``shape``, with the attributes ``keys`` of its node.

    Attributes that do not concern it are ignored.
    """
    rank, mode = len(sizes), keys.get("auto_pad", "NOTSET")
    strides, dilations = (tuple(keys.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = (keys.get("pads") if mode == "NOTSET" else None) or [0] * 2 * rank
    window = Window(tuple(sizes), strides, dilations, tuple(zip(pads[:rank], pads[rank:], strict=True)))
    padding = window.pads
    if mode.startswith("SAME"):
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
    return replace(window, pads=padding)


def _round_up(span: int, stride: int, end: int) -> int:
    """Return how much to add so that a last window fits that would begin before ``end``."""
    rest = -span % stride
    return rest if (span + rest) // stride * stride < end else 0


def flip_kernel(kernel: Any, groups: int) -> Any:
    """Return the kernel [c, o / groups, ...] of a transposed convolution as one that moves over a dilated image."""
    spatial = kernel.shape[2:]
    parts = kernel.reshape(groups, kernel.shape[0] // groups, kernel.shape[1], *spatial).swapaxes(1, 2)
    whole = parts.reshape(groups * kernel.shape[1], kernel.shape[0] // groups, *spatial)
    return whole[(slice(None), slice(None), *[slice(None, None, -1)] * len(spatial))]
