"""Steps of a program that XLA leaves to a runtime, each of them a thunk, and where their bytes lie.

Offsets and sizes are bytes, strides are elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ALIGNMENT = 64
"""XLA's kernels assume every buffer is aligned to this many bytes (``min_alignment`` in the thunk)."""

Space = Literal["arena", "weights", "feed"]


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes at ``offset`` in the writable arena or in the read-only weights.

    In the space "feed" they are those of feed number ``offset``, where the caller has them, and of any alignment.
    """

    space: Space
    offset: int
    size: int

    def overlaps(self, other: Buffer) -> bool:
        """Whether any byte belongs to both."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True)
class KernelStep:
    """Call one of XLA's fused kernels: arguments, then results, once per work group."""

    name: str
    kernel: str
    buffers: tuple[Buffer, ...]
    workgroups: tuple[int, int, int]


@dataclass(frozen=True)
class ConvolutionStep:
    """XLA's convolution on logical dimensions; see ``cf_convolution`` in runtime/ops/kernels.h."""

    name: str
    dtype: str
    input: Buffer
    kernel: Buffer
    output: Buffer
    batch: int
    groups: int
    in_channels: int
    out_channels: int
    in_size: tuple[int, ...]
    out_size: tuple[int, ...]
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    pad_low: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]
    reversed: tuple[bool, ...]
    in_strides: tuple[int, ...]
    """The strides of batch, channel, then each spatial dimension; ``out_strides`` in the same order."""
    kernel_strides: tuple[int, ...]
    """The strides of input channel, output channel, then each spatial dimension."""
    out_strides: tuple[int, ...]


@dataclass(frozen=True)
class DotStep:
    """Batched matrix product ``out[b,m,n] = sum_k lhs[b,m,k] * rhs[b,k,n]``."""

    name: str
    dtype: str
    lhs: Buffer
    rhs: Buffer
    out: Buffer
    batch: int
    m: int
    n: int
    k: int
    lhs_strides: tuple[int, int, int]
    """The strides of b, m and k; ``rhs_strides``: of b, k and n; ``out_strides``: of b, m and n."""
    rhs_strides: tuple[int, int, int]
    out_strides: tuple[int, int, int]


@dataclass(frozen=True)
class CopyStep:
    """Copy a tensor, changing its layout where the strides differ."""

    name: str
    source: Buffer
    target: Buffer
    item_size: int
    dims: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


@dataclass(frozen=True)
class SortStep:
    """Stable sort of several buffers together, in place, along one dimension of stride ``inner``."""

    name: str
    comparator: str
    buffers: tuple[Buffer, ...]
    item_sizes: tuple[int, ...]
    outer: int
    length: int
    inner: int
    scratch: Buffer


@dataclass(frozen=True)
class TopKStep:
    """The ``k`` largest float32 of every row, and their int32 positions."""

    name: str
    values: Buffer
    out_values: Buffer
    out_indices: Buffer
    batch: int
    length: int
    k: int


@dataclass(frozen=True)
class FftAxis:
    """One dimension of a transform, as ``cf_fft_axis`` of runtime/ops/kernels.h has it. ``tables``: in floats."""

    size: int
    length: int
    padded: int
    tables: int
    split: bool


FftKind = Literal["FFT", "IFFT", "RFFT", "IRFFT"]


@dataclass(frozen=True)
class FftStep:
    """Discrete Fourier transforms over the last dimensions; see ``cf_fft`` in runtime/ops/kernels.h.

    ``tables``: their constants, among the weights. ``lines`` and ``copy``: places in ``scratch``, in floats.
    """

    name: str
    kind: FftKind
    input: Buffer
    tables: Buffer
    output: Buffer
    batch: int
    axes: tuple[FftAxis, ...]
    lines: int
    copy: int
    scratch: Buffer


@dataclass(frozen=True)
class NmsStep:
    """Non-maximum suppression of ``count`` boxes, or of their ``overlaps``; see ``cf_nms`` in runtime/ops/kernels.h."""

    name: str
    boxes: Buffer
    scores: Buffer
    indices: Buffer
    kept: Buffer
    found: Buffer
    count: int
    size: int
    overlap: float
    score: float
    decay: float
    overlaps: bool
    scratch: Buffer


@dataclass(frozen=True)
class CombinedNmsStep:
    """The same for each class; see ``cf_combined_nms``."""

    name: str
    boxes: Buffer
    scores: Buffer
    out_boxes: Buffer
    out_scores: Buffer
    out_classes: Buffer
    found: Buffer
    batch: int
    count: int
    box_classes: int
    classes: int
    per_class: int
    size: int
    overlap: float
    score: float
    clip: bool
    scratch: Buffer


@dataclass(frozen=True)
class RngStep:
    """Store the generator's 128-bit state and advance it by ``delta``."""

    name: str
    state: Buffer
    delta: int
