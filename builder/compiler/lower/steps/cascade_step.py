"""Step that runs layers one after another on a stripe of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from builder.compiler.lower.packing import MAX_THREADS
from builder.compiler.lower.steps.base import Step, StepPrinter
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.lower.steps.printing import format_fields, format_list, format_starts


@dataclass(frozen=True)
class CascadeStep(Step):
    """``layers`` that each read the output of the one before, run a stripe of rows at a time.

    A stripe has ``rows`` rows of the last layer's output. The buffer between two layers has the rows that a stripe
    needs, for each thread one after another; its View is that of the whole image. Scratch is divided likewise.
    """

    layers: tuple[LayerStep, ...]
    rows: int

    @property
    def rolling(self) -> tuple[int, ...]:
        """Bytes of a thread's buffer behind each layer but the last."""
        return tuple(layer.stored.buffer.size // MAX_THREADS for layer in self.layers[:-1])

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of a thread's scratch for each layer."""
        return tuple(layer.scratch.size // MAX_THREADS if layer.scratch else 0 for layer in self.layers)

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        first = printer.probed.get(id(self.layers[0]))
        values: dict[str, object] = {"count": len(self.layers), "rows": self.rows}
        values |= {"layers": "layers", "rolling": "rolling"}
        lines = [f"static const size_t rolling[] = {format_list(self.rolling)};"]
        if any(self.scratch):
            lines.append(f"static const size_t scratch[] = {format_list(self.scratch)};")
            values["scratch"] = "scratch"
        if first is not None:
            values |= {"step": "cf_step", "first_step": first}
        return [
            "static const cf_layer layers[] = {",
            *_entries([format_fields(layer.c_fields) for layer in self.layers]),
            "};",
            *lines,
            "static const cf_cascade cascade = {",
            *format_fields(values),
            "};",
            "const cf_layer_data data[] = {",
            *_entries([format_fields(format_starts(layer.c_buffers)) for layer in self.layers]),
            "};",
            "cf_run_cascade(context, &cascade, data);",
        ]


def _entries(structures: Iterable[list[str]]) -> list[str]:
    return [line for fields in structures for line in ("    {", *(f"    {field}" for field in fields), "    },")]
