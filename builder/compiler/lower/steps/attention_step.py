"""Attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_float, format_kernel_call, format_list


@dataclass(frozen=True)
class MatrixRows:
    """The rows of many matrices of float32: strides in floats, of a row's own numbers 1.

    ``outer``: from matrix to matrix, in three dimensions. ``first``: of the first row, from the buffer's start.
    """

    buffer: Buffer
    first: int
    outer: tuple[int, int, int]
    row: int


MaskKind = Literal["added", "chosen", "causal"]
MaskType = Literal["f32", "s32", "set", "u8"]
"""Of a mask's elements: float32, int32, int32 that counts as 1 where it is not 0, and bool."""


@dataclass(frozen=True)
class Mask:
    """What happens to the scores. Its number for a query and a key is ``element * scale + shift``.

    "added": number and score are added. "chosen": the score stays where the number is not 0, and else is ``fill``.
    "causal": the score stays where key <= query + ``past``; the others are left out. That takes no ``buffer``.
    ``strides``: of the three dimensions of matrices, of query and of key, in elements; 0 repeats.
    ``first``: the first element's number.
    """

    kind: MaskKind
    buffer: Buffer | None = None
    type: MaskType = "f32"
    scale: float = 1.0
    shift: float = 0.0
    fill: float = 0.0
    past: int = 0
    first: int = 0
    strides: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


@dataclass(frozen=True)
class AttentionStep(Step):
    """``output = softmax(query key^T * scale, masked) value`` for every matrix; float32.

    ``outer``: how many matrices there are, such as batch x heads x queries' heads that share a head of keys.
    ``size``: numbers of a query and of a key; ``value_size``: of a value and of an answer.
    """

    kernel_table = "attention"

    query: Reads[MatrixRows]
    key: Reads[MatrixRows]
    value: Reads[MatrixRows]
    output: Writes[MatrixRows]
    outer: tuple[int, int, int]
    queries: int
    keys: int
    size: int
    value_size: int
    scale: float
    mask: Reads[Mask | None] = None
    safe: bool = False  # a query that sees no key is answered with zeros, and not NaN
    layer: str = ""  # the op's name in the model

    @property
    def flop(self) -> int:
        return count_flop(math.prod(self.outer) * self.queries * self.keys, self.size + self.value_size)

    def c_lines(self, printer: StepPrinter) -> list[str]:
        rows = {"query": self.query, "key": self.key, "value": self.value, "output": self.output}
        values: dict[str, object] = {"outer": format_list(self.outer)}
        values |= {name: getattr(self, name) for name in ("queries", "keys", "size", "value_size")}
        values |= {name: _format_rows(at) for name, at in rows.items()}
        values |= {"scale": format_float(self.scale), "safe": int(self.safe)}
        buffers = {name: at.buffer for name, at in rows.items()}
        mask = self.mask
        if mask is not None:
            values |= {"mask": f"CF_MASK_{mask.kind.upper()}", "fill": format_float(mask.fill)}
            if mask.buffer is None:
                values["past"] = mask.past
            else:
                values |= {"mask_type": f"CF_MASK_{mask.type.upper()}", "mask_first": mask.first}
                values |= {"mask_scale": format_float(mask.scale), "mask_shift": format_float(mask.shift)}
                values["mask_strides"] = format_list(mask.strides)
                buffers["mask"] = mask.buffer
        return format_kernel_call("attention", "attention", values, buffers)


def _format_rows(rows: MatrixRows) -> str:
    return f"{{{rows.first}, {format_list(rows.outer)}, {rows.row}}}"
