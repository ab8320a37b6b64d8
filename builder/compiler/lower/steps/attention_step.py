"""Step that computes scaled dot-product attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.steps.base import Buffer, Reads, Step, StepPrinter, Writes
from builder.compiler.lower.steps.printing import format_float, format_kernel_call, format_list


@dataclass(frozen=True)
class MatrixRows:
    """Rows of many matrices of float32, with strides in floats and the numbers of a row adjacent.

    ``outer``: the strides from matrix to matrix, in three dimensions. ``first``: the offset of the first row in the
    buffer.
    """

    buffer: Buffer
    first: int
    outer: tuple[int, int, int]
    row: int


MaskKind = Literal["added", "chosen", "causal"]
MaskType = Literal["f32", "s32", "set", "u8"]
"""Type of a mask's elements: float32, int32, int32 that counts as 1 if it is not 0, and bool."""


@dataclass(frozen=True)
class Mask:
    """A mask of the scores, whose number for a query and a key is ``element * scale + shift``.

    "added": number and score are added. "chosen": the score is kept if the number is not 0, and else becomes ``fill``.
    "causal": only scores with key <= query + ``past`` count; it has no ``buffer``. ``strides``: in elements, of the
    three dimensions of matrices, of query and of key; 0 repeats. ``first``: the index of the first element.
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
    """``output = softmax(query key^T * scale, masked) value`` for every matrix, in float32.

    ``outer``: the counts of matrices, such as batch x heads x queries' heads that share a head of keys. ``size``: the
    numbers of a query and of a key. ``value_size``: the numbers of a value and of an answer.
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
    safe: bool = False  # a query that sees no key gets zeros instead of NaN
    layer: str = ""  # the op's name in the model

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        return count_flop(math.prod(self.outer) * self.queries * self.keys, self.size + self.value_size)

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        rows = {"query": self.query, "key": self.key, "value": self.value, "output": self.output}
        values: dict[str, object] = {"outer": format_list(self.outer)}
        values |= {name: getattr(self, name) for name in ("queries", "keys", "size", "value_size")}
        values |= {name: f"{{{at.first}, {format_list(at.outer)}, {at.row}}}" for name, at in rows.items()}
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
