"""Step that finds the largest numbers of every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointer
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


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
        return [
            f"static const cf_topk topk = {format_list((self.batch, self.length, self.k))};",
            f"cf_run_topk(&topk, (const float *){format_pointer(self.values)}, "
            f"(float *){format_pointer(self.out_values)}, (int32_t *){format_pointer(self.out_indices)});",
        ]


@reads_thunk("top_k_thunk")
def _read_top_k(name: str, thunk: Any, reader: ThunkReader) -> Step:
    values, out_values, out_indices = (
        reader.resolve_slice(s, name) for s in (thunk.values_buffer, thunk.output_buffer, thunk.indices_buffer)
    )
    return TopKStep(name, values, out_values, out_indices, thunk.batch_size, thunk.input_size, k=thunk.k)
