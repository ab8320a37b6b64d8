"""Steps that copy, add or multiply arrays, with another layout, a row alone, or one of them repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
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
        """Return the lines of C that run the step."""
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
        hlo_proto.get_item_size(source),
        tuple(source.dimensions),
        hlo_proto.compute_shape_strides(source),
        target_strides=hlo_proto.compute_shape_strides(target),
    )


@dataclass(frozen=True)
class RowStep(Step):
    """A copy of one of ``count`` rows of ``source`` to ``target``, which has a row's size.

    ``index`` is an int32 in the arena; past either end it means the row at that end.
    """

    index: Reads[Buffer]
    source: Reads[Buffer]
    target: Writes[Buffer]
    count: int

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        return [
            f"const int32_t index = *(const int32_t *){format_pointer(self.index)};",
            f"const size_t row = index < 0 ? 0u : index < {self.count} ? (size_t)index : {self.count - 1}u;",
            f"__builtin_memcpy({format_pointer(self.target)}, "
            f"(const uint8_t *){format_pointer(self.source)} + row * {self.target.size}u, {self.target.size}u);",
        ]


BroadcastOp = Literal["copy", "add", "multiply"]


@dataclass(frozen=True)
class BroadcastStep(Step):
    """``target = source``, ``source + other`` or ``source * other`` of float32, over four dimensions.

    Strides are in elements; the target's last is 1, and 0 repeats. ``source`` may be ``target`` if their strides are
    equal.
    """

    op: BroadcastOp
    source: Reads[Buffer]
    other: Reads[Buffer | None]
    target: Writes[Buffer]
    dims: tuple[int, ...]
    source_strides: tuple[int, ...]
    other_strides: tuple[int, ...] | None
    target_strides: tuple[int, ...]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        other = self.other_strides or (0,) * len(self.dims)
        fields = ", ".join(format_list(d) for d in (self.dims, self.source_strides, other, self.target_strides))
        second = "NULL" if self.other is None else format_pointer(self.other)
        return [
            f"static const cf_broadcast broadcast = {{CF_BROADCAST_{self.op.upper()}, {fields}}};",
            f"cf_call_broadcast(context, &broadcast, {format_pointer(self.source)}, "
            f"{second}, {format_pointer(self.target)});",
        ]
