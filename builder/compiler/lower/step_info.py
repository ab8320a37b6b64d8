"""The description of a step for a person: its kind, what was fused, and how much it computes and moves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.steps.base import Step


@dataclass(frozen=True)
class StepInfo:
    """The description of one step. ``inside``: the descriptions of a cascade's layers, for one stripe.

    ``kind`` is layer, cascade, pool, norm, recurrent, attention, repack, copy, gather or xla.
    """

    name: str
    kind: str
    matched: tuple[str, ...] = ()
    """The operations that were fused, from the first to the last; for the kind xla, why none was."""
    algorithm: str = ""
    flop: int = 0
    """Floating-point operations of a convolution or product, a multiply-add counted as two."""
    bytes: int = 0
    """The bytes that are read and written, weights included."""
    gives: str = ""
    """The op in the model whose value the step writes, where it is not the op of its ``name``."""
    inside: tuple[StepInfo, ...] = ()


def describe_step(step: Step) -> StepInfo:
    """Describe one of XLA's own steps."""
    return StepInfo(step.name, "xla", flop=step.flop, bytes=sum(b.size for b in (*step.reads, *step.writes)))


def count_value_flop(value: Value) -> int:
    """Count the floating-point operations of a convolution or product of the graph; 0 for any other value."""
    if value.op == "dot":
        left, numbers = value.operands[0], value.instruction.dot_dimension_numbers
        return count_flop(value.elements, math.prod(left.dims[d] for d in numbers.lhs_contracting_dimensions))
    if value.op == "convolution":
        kernel, numbers = value.operands[1], value.instruction.convolution_dimension_numbers
        outer = kernel.dims[numbers.kernel_output_feature_dimension]
        return count_flop(value.elements, kernel.elements // max(1, outer))
    return 0
