"""Step that gathers rows of a table by their indices."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import CF_DTYPES, format_list, format_pointer
from builder.config.schema import WeightType


@dataclass(frozen=True)
class GatherStep(Step):
    """A gather of rows of ``table`` [rows, width], as float32, at ``count`` indices of the dtype ``index``.

    Indices become int32, or int64 if ``wide``. One below 0 counts from the table's end if ``negative``; one past either
    end means the row at that end.
    """

    indices: Reads[Buffer]
    table: Reads[Buffer]
    output: Writes[Buffer]
    rows: int
    width: int
    count: int
    index: str
    wide: bool = False
    negative: bool = False
    weight_type: WeightType = "float32"
    weight_scale: Reads[Buffer | None] = None  # int8 has a float32 for each row
    layer: str = ""  # the op's name in the model
    kept: str = ""  # why the table is not of the requested type

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        kinds = f"CF_{self.weight_type.upper()}, {CF_DTYPES[self.index]}"
        numbers = format_list((self.wide, self.negative, self.count, self.rows, self.width))[1:-1]
        scale = "NULL" if self.weight_scale is None else f"(const float *){format_pointer(self.weight_scale)}"
        return [
            f"static const cf_gather gather = {{{kinds}, {numbers}}};",
            f"cf_run_gather(&gather, {format_pointer(self.indices)}, {format_pointer(self.table)}, {scale}, "
            f"(float *){format_pointer(self.output)});",
        ]
