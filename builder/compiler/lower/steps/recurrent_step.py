"""Step that runs a recurrent layer over all of its time steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from builder.compiler.lower.geometry import Geometry
from builder.compiler.lower.packing import compute_scratch_size
from builder.compiler.lower.steps.base import (
    Buffer,
    KernelKind,
    Reads,
    Scratch,
    Step,
    StepPrinter,
    Updates,
    Writes,
)
from builder.compiler.lower.steps.printing import format_float, format_kernel_call, format_list
from builder.compiler.lower.steps.quantisation import Quantisation
from builder.config.schema import WeightType

Recurrence = Literal["lstm", "gru"]


@dataclass(frozen=True)
class RecurrentStep(Step):
    """A recurrent layer over all of its time steps.

    ``input``: [steps, batch, gates * units], the inputs' part of the gates, biases included. Each time step adds
    ``hidden [batch, units] @ weights`` (with ``bias``) to its part of it. "lstm": gates i, f, g and o; ``cell =
    sigmoid(f) * cell + sigmoid(i) * tanh(g)``, ``hidden = sigmoid(o) * tanh(cell)``. "gru": gates z, r and h, where the
    product of ``hidden`` for h is multiplied by r before it is added; ``hidden = sigmoid(z) * hidden + (1 - sigmoid(z))
    * tanh(h)``.

    ``bounded``: the state begins, and so stays, between -1 and 1. With ``quantisation``, which then is
    ``STATE_ROUNDING``, it is rounded to bytes before it is multiplied, as the input of an integer layer is, and
    ``weight_sums`` are needed. ``hidden`` and ``cell`` are the state, before the first step and after the last one.
    ``output``: the memory where each step also leaves ``hidden``, ``output_stride`` floats apart: 0 leaves that of the
    last one. ``backwards``: the input's last step is the first. ``scratch``: a step's products. ``by_units``: the
    weights are packed by ``pack_units``.
    """

    kernel_table = "fused"

    kind: Recurrence
    steps: int
    batch: int
    units: int
    input: Reads[Buffer]
    weights: Reads[Buffer]
    bias: Reads[Buffer]
    hidden: Updates[Buffer]
    cell: Updates[Buffer | None]
    output: Writes[Buffer | None]
    output_stride: int
    backwards: bool
    scratch: Scratch[Buffer]
    by_units: bool = False
    bounded: bool = False
    quantisation: Quantisation | None = None
    weight_type: WeightType = "float32"
    weight_scale: Reads[Buffer | None] = None
    weight_sums: Reads[Buffer | None] = None
    layer: str = ""  # the op's name in the model
    kept: str = ""  # why its weights are not of the requested type

    @property
    def gates(self) -> int:
        """Number of gates."""
        return 4 if self.kind == "lstm" else 3

    @property
    def geometry(self) -> Geometry:
        """Geometry of one time step's product."""
        return Geometry(1, self.units, (1, self.batch), self.gates * self.units)

    @property
    def flop(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        return self.steps * self.geometry.flop

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        needed: dict[KernelKind, bool] = {
            "INTEGER": self.quantisation is not None,
            "SMALL_WEIGHTS": self.weight_type != "float32",
            "RECURRENT": True,
        }
        return frozenset(kind for kind, is_needed in needed.items() if is_needed)

    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""
        rows, gates = (1, self.batch), self.gates * self.units
        product: dict[str, object] = {
            "algorithm": "CF_DIRECT",
            "activation": "CF_CLAMP",
            "batch": 1,
            "groups": 1,
            "in_channels": self.units,
            "out_channels": gates,
            "out": format_list(rows),
            "kernel": format_list((1, 1)),
            "stride": format_list((1, 1)),
            "dilation": format_list((1, 1)),
            "input": format_list((0, self.batch * self.units, self.batch * self.units, self.units)),
            "output": format_list((0, self.batch * gates, self.batch * gates, gates)),
            "low": format_float(-math.inf),
            "high": format_float(math.inf),
        }
        if self.weight_type != "float32":
            product["weight_type"] = f"CF_{self.weight_type.upper()}"
        if self.quantisation is not None:
            product |= {"algorithm": "CF_INTEGER", "input_zero": self.quantisation.zero}
            product["input_scale"] = format_float(self.quantisation.scale)
        values: dict[str, object] = {"kind": f"CF_{self.kind.upper()}"}
        values |= {name: getattr(self, name) for name in ("steps", "batch", "units")}
        values |= {"output_step": self.output_stride, "backwards": int(self.backwards)}
        values["by_units"] = int(self.by_units)
        if self.quantisation is not None:
            values["product_scratch"] = compute_scratch_size(self.geometry, "integer") // 4
        values["product"] = "{" + ", ".join(f".{name} = {value}" for name, value in product.items()) + "}"
        names = ("input", "weights", "bias", "weight_scale", "weight_sums", "hidden", "cell", "output", "scratch")
        buffers = {name: getattr(self, name) for name in names}
        return format_kernel_call("recurrent", "fused->recurrent", values, buffers)
