"""Ensembles of decision trees: custom calls of coldforge's own."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import Buffer, Reads, Scratch, Step, StepPrinter, Writes
from builder.compiler.lower.steps.custom_call_step import CustomCall, reads_call, require_shapes
from builder.compiler.lower.steps.printing import format_fields, format_pointer, format_starts
from builder.importers.rewrites.custom_steps import TREE_SUMS

_OPERANDS = ("float32", "int32", "int32", "uint16", "int32", "int32")


@dataclass(frozen=True)
class TreesStep(Step):
    """The sums of the leaves of ``rows`` rows; see ``cf_trees`` in runtime/trees/trees.h."""

    x: Reads[Buffer]
    column: Reads[Buffer]
    thresholds: Reads[Buffer]
    node: Reads[Buffer]
    counts: Reads[Buffer]
    groups: Reads[Buffer]
    leaves: Reads[Buffer]
    bases: Reads[Buffer]
    sums: Writes[Buffer]
    rows: int
    features: int
    columns: int
    trees: int
    outputs: int
    width: int
    most_slots: int
    doubles: bool
    scratch: Scratch[Buffer]

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        sizes = ("rows", "features", "columns", "trees", "outputs", "width", "most_slots", "doubles")
        arrays = ("column", "thresholds", "node", "counts", "groups", "leaves", "bases")
        return [
            "const cf_trees trees = {",
            *format_fields({name: int(getattr(self, name)) for name in sizes}),
            *format_fields(format_starts({name: getattr(self, name) for name in arrays})),
            "};",
            f"cf_run_trees(&trees, (const float *){format_pointer(self.x)}, {format_pointer(self.sums)}, "
            f"{format_pointer(self.scratch)});",
        ]


@reads_call(TREE_SUMS, (*_OPERANDS, "float32", "float32", "float32"), (*_OPERANDS, "float64", "float64", "float64"))
def _read_sums(call: CustomCall) -> TreesStep:
    x, column, thresholds, node, counts, groups, leaves, bases = call.inputs
    (sums,) = call.outputs
    (rows, features), (trees,), (outputs,), (_, width) = x.dims, counts.dims, bases.dims, leaves.dims
    require_shapes(sums.dims == (rows, outputs) and column.dims[1:] == (6,) and node.dims[1:] == (4,))
    require_shapes(groups.dims == counts.dims)
    most_slots = int(call.config["most_slots"])
    return TreesStep(
        call.name,
        x.buffer,
        column.buffer,
        thresholds.buffer,
        node.buffer,
        counts.buffer,
        groups.buffer,
        leaves.buffer,
        bases.buffer,
        sums.buffer,
        rows=rows,
        features=features,
        columns=column.dims[0],
        trees=trees,
        outputs=outputs,
        width=width,
        most_slots=most_slots,
        doubles=bases.buffer.size == 8 * outputs,
        scratch=call.scratch((column.dims[0] + most_slots + 1) * 128),
    )
