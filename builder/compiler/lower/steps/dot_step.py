"""A matrix product as XLA defines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import CF_DTYPES, format_list, format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk

DOT_DTYPES = {
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip


@dataclass(frozen=True)
class DotStep(Step):
    """A batched matrix product ``out[b,m,n] = sum_k lhs[b,m,k] * rhs[b,k,n]``."""

    dtype: str
    lhs: Reads[Buffer]
    rhs: Reads[Buffer]
    out: Writes[Buffer]
    batch: int
    m: int
    n: int
    k: int
    lhs_strides: tuple[int, int, int]
    """Strides of b, m and k. ``rhs_strides``: those of b, k and n. ``out_strides``: those of b, m and n."""
    rhs_strides: tuple[int, int, int]
    out_strides: tuple[int, int, int]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        sizes = format_list((self.batch, self.m, self.n, self.k))[1:-1]
        strides = format_list((*self.lhs_strides, *self.rhs_strides, *self.out_strides))[1:-1]
        return [
            f"static const cf_dot dot = {{{CF_DTYPES[self.dtype]}, {sizes}, {strides}}};",
            f"cf_call_dot(context, &dot, {format_pointer(self.lhs)}, {format_pointer(self.rhs)}, "
            f"{format_pointer(self.out)});",
        ]

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        return count_flop(self.batch * self.m * self.n, self.k)


@reads_thunk("dot_thunk")
def _read_dot(name: str, thunk: Any, reader: ThunkReader) -> Step:
    numbers = thunk.dot_dimensions
    lhs, rhs, out = (s.shape for s in (thunk.lhs_buffer_shape, thunk.rhs_buffer_shape, thunk.out_buffer_shape))
    kind = hlo_proto.get_dtype(out)
    if kind not in DOT_DTYPES or hlo_proto.get_dtype(lhs) != kind or hlo_proto.get_dtype(rhs) != kind:
        raise LowerError(f"there is no dot of {hlo_proto.get_dtype(lhs)} and {hlo_proto.get_dtype(rhs)} to {kind}.")

    def split(shape: Any, batch: list[int], contracting: list[int]) -> list[tuple[int, int]]:
        free = [d for d in range(len(shape.dimensions)) if d not in batch and d not in contracting]
        return [hlo_proto.merge_dimensions(shape, dims, name) for dims in (batch, contracting, free)]

    left = split(lhs, list(numbers.lhs_batch_dimensions), list(numbers.lhs_contracting_dimensions))
    right = split(rhs, list(numbers.rhs_batch_dimensions), list(numbers.rhs_contracting_dimensions))
    # The result's dimensions are the batch, then the left's free, then the right's free ones.
    batches = len(numbers.lhs_batch_dimensions)
    rows = len(lhs.dimensions) - batches - len(numbers.lhs_contracting_dimensions)
    order = list(range(len(out.dimensions)))
    product = [
        hlo_proto.merge_dimensions(out, dims, name)
        for dims in (order[:batches], order[batches : batches + rows], order[batches + rows :])
    ]
    return DotStep(
        name,
        kind,
        lhs=reader.resolve_shaped_slice(thunk.lhs_buffer_shape, name),
        rhs=reader.resolve_shaped_slice(thunk.rhs_buffer_shape, name),
        out=reader.resolve_shaped_slice(thunk.out_buffer_shape, name),
        batch=left[0][0],
        m=left[2][0],
        n=right[2][0],
        k=left[1][0],
        lhs_strides=(left[0][1], left[2][1], left[1][1]),
        rhs_strides=(right[0][1], right[1][1], right[2][1]),
        out_strides=(product[0][1], product[1][1], product[2][1]),
    )
