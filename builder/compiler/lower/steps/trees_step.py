"""Ensembles of decision trees: custom calls of coldforge's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from builder.base.targets import KernelTable
from builder.compiler.lower.packing import MAX_THREADS
from builder.compiler.lower.steps.base import Buffer, Reads, Scratch, Step, StepPrinter, Writes
from builder.compiler.lower.steps.custom_call_step import CustomCall, reads_call, require_shapes
from builder.compiler.lower.steps.printing import format_kernel_call
from builder.importers.rewrites.custom_steps import TREE_ARRAYS, TREE_SUMS

_ROWS, _BLOCKS = 64, 16
"""CF_TREE_ROWS and CF_TREE_BLOCKS in runtime/trees/trees.h."""

_NEAR = 1 << 17
"""Bytes of the ranks and sums of a thread's blocks, so that they stay in a near cache."""

_DTYPES = ("float32", "int32", "int32", "int32", "uint8", "int32")


@dataclass(frozen=True)
class TreesStep(Step):
    """The sums of leaves for each of ``rows`` rows ``x``; see ``cf_trees`` and its data in runtime/trees/trees.h.

    ``arrays``: those of TREE_ARRAYS. ``indices``: int32 [rows, trees], the number of each tree's leaf.
    ``thread_scratch``: bytes of scratch for each thread, of up to ``blocks`` blocks.
    """

    x: Reads[Buffer]
    arrays: Reads[tuple[Buffer, ...]]
    sums: Writes[Buffer]
    rows: int
    features: int
    columns: int
    trees: int
    outputs: int
    width: int
    words: bool
    wide: bool
    doubles: bool
    blocks: int
    thread_scratch: int
    scratch: Scratch[Buffer]
    indices: Writes[Buffer | None] = None

    kernel_table: ClassVar[KernelTable | None] = "trees"

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        names = ("rows", "features", "columns", "trees", "outputs", "width", "words", "wide", "doubles", "blocks")
        values: Mapping[str, object] = {name: int(getattr(self, name)) for name in names}
        buffers = {"x": self.x, **dict(zip(TREE_ARRAYS, self.arrays, strict=True)), "sums": self.sums}
        if self.indices:
            buffers["indices"] = self.indices
        return format_kernel_call(
            "trees", "trees", {**values, "scratch": self.thread_scratch}, {**buffers, "scratch": self.scratch}
        )


@reads_call(
    TREE_SUMS,
    (*_DTYPES, "float32", "float32", "float32"),
    (*_DTYPES, "float64", "float64", "float64"),
    (*_DTYPES, "float32", "float32", "float32", "int32"),
    (*_DTYPES, "float64", "float64", "float64", "int32"),
)
def _read_sums(call: CustomCall) -> TreesStep:
    x, *arrays = call.inputs
    columns, _, trees, _, large, leaves, bases = arrays
    sums, *indices = call.outputs
    (rows, features), (outputs,), (_, width) = x.dims, bases.dims, leaves.dims
    require_shapes(sums.dims == (rows, outputs) and columns.dims[1:] == (7,) and trees.dims[1:] == (5,))
    require_shapes(large.dims[1:] == (2,) and all(t.dims == (rows, trees.dims[0]) for t in indices))
    words, most_nodes = bool(call.config["words"]), int(call.config["most_nodes"])
    doubles = bases.buffer.size == 8 * outputs
    ranks, sums_size = columns.dims[0] * (2 if words else 1), outputs * (8 if doubles else 4)
    block, total = _ROWS * (ranks + sums_size), -(-rows // _ROWS)
    blocks = max(1, min(_BLOCKS, total, _NEAR // block))
    size = blocks * block + _ROWS * (2 * most_nodes + 1)
    return TreesStep(
        call.name,
        x.buffer,
        tuple(array.buffer for array in arrays),
        sums.buffer,
        rows=rows,
        features=features,
        columns=columns.dims[0],
        trees=trees.dims[0],
        outputs=outputs,
        width=width,
        words=words,
        wide=bool(call.config["wide"]),
        doubles=doubles,
        blocks=blocks,
        thread_scratch=size,
        scratch=call.scratch(size * min(MAX_THREADS, total)),
        indices=indices[0].buffer if indices else None,
    )
