"""What a person is told about a step: what it is, what was fused, and how much it computes and moves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from builder.compiler.lower.geometry import count_flop
from builder.compiler.lower.hlo import Value
from builder.compiler.lower.steps.base import Step


@dataclass(frozen=True)
class StepInfo:
    """What is known of one step: ``kind`` is layer, cascade, pool, norm, recurrent, attention, repack, copy, gather or
    xla.

    ``inside``: those of the layers of a cascade, for one stripe.
    """

    name: str
    kind: str
    matched: tuple[str, ...] = ()
    """What was fused, from the first to the last; why it was not, where ``kind`` is xla."""
    algorithm: str = ""
    flop: int = 0
    """Floating-point operations of a convolution or product, a multiply-add counted as two."""
    bytes: int = 0
    """Read and written, weights included."""
    gives: str = ""
    """The op in the model whose value the step leaves, where that is not the op of its ``name``."""
    inside: tuple[StepInfo, ...] = ()


def describe_step(step: Step) -> StepInfo:
    """The note of one of XLA's own steps."""
    return StepInfo(step.name, "xla", flop=step.flop, bytes=sum(b.size for b in (*step.reads, *step.writes)))


def count_value_flop(value: Value) -> int:
    """Floating-point operations of a convolution or product of the graph; 0 of any other value."""
    if value.op == "dot":
        left, numbers = value.operands[0], value.instruction.dot_dimension_numbers
        return count_flop(value.elements, math.prod(left.dims[d] for d in numbers.lhs_contracting_dimensions))
    if value.op == "convolution":
        kernel, numbers = value.operands[1], value.instruction.convolution_dimension_numbers
        outer = kernel.dims[numbers.kernel_output_feature_dimension]
        return count_flop(value.elements, kernel.elements // max(1, outer))
    return 0
