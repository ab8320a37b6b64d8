"""Rows in reverse order: a template for builder/compiler/lower/steps/<kind>_step.py."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class ReverseStep(Step):
    """Copy ``rows`` rows of ``length`` float32 numbers, each in reverse order."""

    source: Reads[Buffer]
    target: Writes[Buffer]
    rows: int
    length: int

    def c_lines(self, printer: StepPrinter) -> list[str]:
        source, target = format_pointer(self.source), format_pointer(self.target)
        return [
            f"static const cf_reverse reverse = {format_list((self.rows, self.length))};",
            f"cf_run_reverse(&reverse, (const float *){source}, (float *){target});",
        ]


@reads_thunk("reverse_thunk")  # the field in XLA's thunk.proto
def _read_reverse(name: str, thunk: Any, reader: ThunkReader) -> Step:
    shape = thunk.source_buffer_shape.shape
    if hlo_proto.get_dtype(shape) != "float32" or not hlo_proto.is_row_major(shape):
        raise LowerError(f"there is no reverse of {hlo_proto.get_dtype(shape)}.")
    source, target = (
        reader.resolve_shaped_slice(proto, name) for proto in (thunk.source_buffer_shape, thunk.target_buffer_shape)
    )
    *rows, length = shape.dimensions
    return ReverseStep(name, source, target, rows=math.prod(rows), length=length)
