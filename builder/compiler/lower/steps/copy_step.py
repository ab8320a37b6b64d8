"""Step that copies a tensor and may change its layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_shapes
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class CopyStep(Step):
    """A copy of a tensor, which changes its layout if the strides differ."""

    source: Reads[Buffer]
    target: Writes[Buffer]
    item_size: int
    dims: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        dims = ", ".join(
            format_list(d) for d in (self.dims or (1,), self.source_strides or (1,), self.target_strides or (1,))
        )
        return [
            f"static const cf_copy copy = {{{len(self.dims)}, {dims}, {self.item_size}}};",
            f"cf_run_copy(&copy, {format_pointer(self.source)}, {format_pointer(self.target)});",
        ]


@reads_thunk("copy_thunk")
def _read_copy(name: str, thunk: Any, reader: ThunkReader) -> Step:
    source, target = thunk.src_buffer_shape.shape, thunk.dst_buffer_shape.shape
    if list(source.dimensions) != list(target.dimensions):
        raise LowerError(f"there is no copy from {list(source.dimensions)} to {list(target.dimensions)}.")
    if len(source.dimensions) > 8:
        raise LowerError(f"a copy has {len(source.dimensions)} dimensions; the runtime handles 8.")
    return CopyStep(
        name,
        reader.resolve_shaped_slice(thunk.src_buffer_shape, name),
        reader.resolve_shaped_slice(thunk.dst_buffer_shape, name),
        hlo_shapes.get_item_size(source),
        tuple(source.dimensions),
        hlo_shapes.compute_shape_strides(source),
        target_strides=hlo_shapes.compute_shape_strides(target),
    )
