"""A discrete Fourier transform as XLA defines it, and the plan of its constants and memory.

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

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.steps.base import Buffer, Reads, Scratch, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointers
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk

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


FFT_KINDS: tuple[FftKind, ...] = ("FFT", "IFFT", "RFFT", "IRFFT")
"""Kinds in the order of FftTypeProto in xla/xla_data.proto, by the number of FftThunkProto.fft_type."""


@dataclass(frozen=True)
class FftStep(Step):
    """Discrete Fourier transforms over the last dimensions; see ``cf_fft`` in runtime/ops/kernels.h.

    ``tables``: their constants, among the weights. ``lines`` and ``copy``: offsets in ``scratch``, in floats.
    """

    kind: FftKind
    input: Reads[Buffer]
    tables: Reads[Buffer]
    output: Writes[Buffer]
    batch: int
    axes: tuple[FftAxis, ...]
    lines: int
    copy: int
    scratch: Scratch[Buffer]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        axes = ", ".join(format_list((a.size, a.length, a.padded, a.tables, a.split)) for a in self.axes)
        arrays = (("const float", self.input), ("const float", self.tables), ("float", self.output))
        return [
            f"static const cf_fft fft = {{CF_{self.kind}, {len(self.axes)}, {self.batch}, {{{axes}}}, "
            f"{self.lines}, {self.copy}}};",
            f"cf_run_fft(&fft, {format_pointers(*arrays, ('float', self.scratch))});",
        ]


@reads_thunk("fft_thunk")
def _read_fft(name: str, thunk: Any, reader: ThunkReader) -> Step:
    source, target = thunk.input_buffer_shape.shape, thunk.output_buffer_shape.shape
    kind, sizes = FFT_KINDS[thunk.fft_type], tuple(thunk.fft_length)
    real, complex_ = (source, target) if kind == "RFFT" else (target, source)
    if hlo_proto.get_dtype(complex_) != "complex64" or hlo_proto.get_dtype(real) not in ("float32", "complex64"):
        raise LowerError(f"there is no {kind} of {hlo_proto.get_dtype(complex_)}.")
    if not (hlo_proto.is_row_major(source) and hlo_proto.is_row_major(target)):
        raise LowerError(f"there is no {kind} of dimensions in another order.")
    batch = math.prod(source.dimensions[: -len(sizes)])
    plan = plan_fft(kind, sizes, batch)
    return FftStep(
        name,
        kind,
        input=reader.resolve_shaped_slice(thunk.input_buffer_shape, name),
        tables=reader.constants.add_constant(plan.tables.tobytes()),
        output=reader.resolve_shaped_slice(thunk.output_buffer_shape, name),
        batch=batch,
        axes=plan.axes,
        lines=plan.lines,
        copy=plan.copy,
        scratch=reader.reserve_scratch(4 * plan.scratch),
    )
