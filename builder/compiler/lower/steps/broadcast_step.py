"""Step that copies, adds or multiplies arrays, one of them repeated along some of its dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_list, format_pointer

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
        other = self.other_strides or (0,) * len(self.dims)
        fields = ", ".join(format_list(d) for d in (self.dims, self.source_strides, other, self.target_strides))
        second = "NULL" if self.other is None else format_pointer(self.other)
        return [
            f"static const cf_broadcast broadcast = {{CF_BROADCAST_{self.op.upper()}, {fields}}};",
            f"cf_call_broadcast(context, &broadcast, {format_pointer(self.source)}, "
            f"{second}, {format_pointer(self.target)});",
        ]
