"""Steps that sort along one dimension, by one of XLA's comparators, or find the largest numbers of every row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.base.escape import c_name
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.steps.base import Buffer, Reads, Scratch, Step, StepPrinter, Updates, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointer, format_pointers
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class SortStep(Step):
    """A stable sort of several buffers together, in place, along one dimension of stride ``inner``."""

    comparator: str
    tensors: Updates[tuple[Buffer, ...]]
    item_sizes: tuple[int, ...]
    outer: int
    length: int
    inner: int
    scratch: Scratch[Buffer]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        pointers = ", ".join(format_pointer(b) for b in self.tensors)
        head = f"{len(self.tensors)}, {self.outer}, {self.length}, {self.inner}"
        return [
            f"static const cf_sort sort = {{{head}, {format_list(self.item_sizes)}}};",
            f"void *const data[] = {{{pointers}}};",
            f"cf_run_sort(&sort, {self.comparator}, data, {format_pointer(self.scratch)});",
        ]

    @property
    def c_declarations(self) -> tuple[str, ...]:
        """C declarations of XLA's functions that the step calls."""
        return (
            f"extern void {c_name(self.comparator)}(uint8_t *result, const void *run_options, const void **operands,\n"
            "    const void *buffer_table, void *status, void *counters);",
        )


@reads_thunk("sort_thunk")
def _read_sort(name: str, thunk: Any, reader: ThunkReader) -> Step:
    inputs = list(thunk.inputs_shapes)
    shape = inputs[0].shape
    if len(inputs) > 16:
        raise LowerError(f"a sort takes {len(inputs)} tensors together; the runtime handles 16.")
    if any(hlo_proto.compute_shape_strides(i.shape) != hlo_proto.compute_shape_strides(shape) for i in inputs):
        raise LowerError("a sort's tensors have different layouts.")
    length = shape.dimensions[thunk.dimension]
    inner = hlo_proto.compute_shape_strides(shape)[thunk.dimension]
    sizes = tuple(hlo_proto.get_item_size(i.shape) for i in inputs)
    return SortStep(
        name,
        thunk.comparator_name,
        tuple(reader.resolve_shaped_slice(i, name) for i in inputs),
        sizes,
        outer=math.prod(shape.dimensions) // max(1, length * inner),
        length=length,
        inner=inner,
        # cf_run_sort needs two index arrays and one column of the widest input.
        scratch=reader.reserve_scratch(length * (16 + max(sizes))),
    )


@dataclass(frozen=True)
class TopKStep(Step):
    """A selection of the ``k`` largest float32 of every row and their int32 positions."""

    values: Reads[Buffer]
    out_values: Writes[Buffer]
    out_indices: Writes[Buffer]
    batch: int
    length: int
    k: int

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        arrays = (("const float", self.values), ("float", self.out_values), ("int32_t", self.out_indices))
        return [
            f"static const cf_topk topk = {format_list((self.batch, self.length, self.k))};",
            f"cf_run_topk(&topk, {format_pointers(*arrays)});",
        ]


@reads_thunk("top_k_thunk")
def _read_top_k(name: str, thunk: Any, reader: ThunkReader) -> Step:
    values, out_values, out_indices = (
        reader.resolve_slice(s, name) for s in (thunk.values_buffer, thunk.output_buffer, thunk.indices_buffer)
    )
    return TopKStep(name, values, out_values, out_indices, thunk.batch_size, thunk.input_size, k=thunk.k)
