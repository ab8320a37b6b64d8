"""Plan of a discrete Fourier transform: its constants, and the memory that it takes.

``cf_run_fft`` transforms eight lines at once, a line in each lane of its vectors. If there are fewer lines, or if eight
do not fit into the cache, the lanes share one line (``split``). Lengths with a large prime factor become convolutions
(Bluestein's algorithm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FftKind = Literal["FFT", "IFFT", "RFFT", "IRFFT"]

LINES = 8
LARGEST_RADIX = 31
"""CF_LINES and CF_LARGEST_RADIX of runtime/ops/fft_lines.h."""

LONG = 2048
"""Number of complex numbers from which on eight lines at once leave the cache."""


@dataclass(frozen=True)
class FftAxis:
    """One dimension of a transform, as ``cf_fft_axis`` of runtime/ops/kernels.h, with ``tables`` in floats."""

    size: int
    length: int
    padded: int
    tables: int
    split: bool


@dataclass(frozen=True)
class FftPlan:
    """Fields of an FftStep besides its buffers, with ``lines``, ``copy`` and ``scratch`` (the total) in floats."""

    axes: tuple[FftAxis, ...]
    tables: NDArray[np.float32]
    lines: int
    copy: int
    scratch: int


def plan_fft(kind: FftKind, sizes: tuple[int, ...], batch: int) -> FftPlan:
    """Plan ``batch`` transforms over dimensions of ``sizes``: those of the real side, if one side is real."""
    real = kind in ("RFFT", "IRFFT")
    rows = batch * math.prod(sizes[:-1])
    axes: list[FftAxis] = []
    tables: list[NDArray[np.float32]] = []
    for number, size in enumerate(sizes):
        last = number == len(sizes) - 1
        length = size // 2 if real and last and size % 2 == 0 else size
        axis = _plan_axis(size, length, shared=last and (rows < LINES or length > LONG))
        axes.append(replace(axis, tables=sum(table.size for table in tables)))
        tables.append(_make_tables(axis))
    room = max(2 * LINES * (2 * _get_lane_length(axis) + axis.padded) for axis in axes)
    half = sizes[-1] // 2 + 1
    copied = 0
    if real:
        copied = 2 * LINES * (sizes[-1] if sizes[-1] % 2 else half if kind == "IRFFT" else 0)
    copy = 2 * rows * half if kind == "IRFFT" and len(sizes) > 1 else 0
    return FftPlan(tuple(axes), np.concatenate(tables), room, room + copied, room + copied + copy)


def _plan_axis(size: int, length: int, *, shared: bool) -> FftAxis:
    """Plan one dimension, whose lanes share a line if they can and ``shared`` is set."""
    padded = 0
    if _find_largest_prime(length) > LARGEST_RADIX:
        padded = 2 * length - 1
        while _find_largest_prime(padded) > 5 or (shared and padded % LINES):
            padded += 1
    return FftAxis(size, length, padded, 0, shared and (padded or length) % LINES == 0)


def _get_lane_length(axis: FftAxis) -> int:
    whole = axis.padded or axis.length
    return whole // LINES if axis.split else whole


def _find_largest_prime(number: int) -> int:
    largest, factor = 1, 2
    while number > 1:
        if factor * factor > number:
            return max(largest, number)
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return largest


def _make_tables(axis: FftAxis) -> NDArray[np.float32]:
    """Compute the constants of one dimension, in the order that ``cf_fft_axis`` states."""
    whole, lane = axis.padded or axis.length, _get_lane_length(axis)
    parts = [_interleave_parts(_compute_roots(np.arange(lane), lane))]
    if axis.split:
        joined = _compute_roots(np.outer(np.arange(lane), np.arange(LINES)), whole)
        parts.append(np.stack([joined.real, joined.imag], 1).reshape(-1))
    if axis.padded:
        chirp = _compute_roots(np.arange(axis.length) ** 2, 2 * axis.length)
        filter_ = np.zeros(axis.padded, np.complex128)
        filter_[: axis.length] = chirp.conj()
        filter_[axis.padded - axis.length + 1 :] = chirp.conj()[:0:-1]
        parts += [_interleave_parts(chirp), _interleave_parts(np.fft.fft(filter_) / axis.padded)]
    if axis.length != axis.size:
        parts.append(_interleave_parts(-1j * _compute_roots(np.arange(axis.length // 2 + 1), axis.size)))
    return np.concatenate(parts).astype(np.float32)


def _compute_roots(numerators: NDArray[np.int64], denominator: int) -> NDArray[np.complex128]:
    """Compute exp(-2 pi i numerator / denominator)."""
    result: NDArray[Any] = np.exp(-2j * np.pi * (numerators % denominator) / denominator)
    parts = result.view(np.float64)
    parts[np.abs(parts) < 1e-15] = 0  # exact zeros are lost, because pi is not exact
    return result


def _interleave_parts(numbers: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.ascontiguousarray(numbers).view(np.float64)
