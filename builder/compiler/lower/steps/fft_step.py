"""A discrete Fourier transform as XLA defines it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_shapes
from builder.compiler.lower.fft import FftAxis, FftKind, plan_fft
from builder.compiler.lower.steps.base import Buffer, Reads, Scratch, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk

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
        axes = ", ".join(format_list((a.size, a.length, a.padded, a.tables, a.split)) for a in self.axes)
        return [
            f"static const cf_fft fft = {{CF_{self.kind}, {len(self.axes)}, {self.batch}, {{{axes}}}, "
            f"{self.lines}, {self.copy}}};",
            f"cf_run_fft(&fft, (const float *){format_pointer(self.input)}, (const float "
            f"*){format_pointer(self.tables)}, "
            f"(float *){format_pointer(self.output)}, (float *){format_pointer(self.scratch)});",
        ]


@reads_thunk("fft_thunk")
def _read_fft(name: str, thunk: Any, reader: ThunkReader) -> Step:
    source, target = thunk.input_buffer_shape.shape, thunk.output_buffer_shape.shape
    kind, sizes = FFT_KINDS[thunk.fft_type], tuple(thunk.fft_length)
    real, complex_ = (source, target) if kind == "RFFT" else (target, source)
    if hlo_shapes.get_dtype(complex_) != "complex64" or hlo_shapes.get_dtype(real) not in ("float32", "complex64"):
        raise LowerError(f"there is no {kind} of {hlo_shapes.get_dtype(complex_)}.")
    if not (hlo_shapes.is_row_major(source) and hlo_shapes.is_row_major(target)):
        raise LowerError(f"there is no {kind} of dimensions in another order.")
    batch = math.prod(source.dimensions[: -len(sizes)])
    plan = plan_fft(kind, sizes, batch)
    return FftStep(
        name,
        kind,
        input=reader.resolve_shaped_slice(thunk.input_buffer_shape, name),
        tables=reader.add_constant(plan.tables.tobytes()),
        output=reader.resolve_shaped_slice(thunk.output_buffer_shape, name),
        batch=batch,
        axes=plan.axes,
        lines=plan.lines,
        copy=plan.copy,
        scratch=reader.reserve_scratch(4 * plan.scratch),
    )
