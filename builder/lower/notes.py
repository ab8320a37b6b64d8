"""What is told about a step of the optimised path."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from builder.lower.program import Buffer, ConvolutionStep, DotStep, Step


@dataclass(frozen=True)
class Note:
    """What is known of one step: ``kind`` is layer, pool, repack, copy or xla."""

    name: str
    kind: str
    matched: tuple[str, ...]
    """What was fused, from the first to the last; why it was not, where ``kind`` is xla."""
    algorithm: str
    flop: int
    """Floating-point operations of a convolution or product, a multiply-add counted as two."""
    bytes: int
    """Read and written, weights included."""


def note_of(step: Step) -> Note:
    """What one of XLA's own steps tells of itself."""
    flop = 0
    if isinstance(step, ConvolutionStep):
        taps = math.prod(step.kernel_size) * step.in_channels // step.groups
        flop = 2 * step.batch * math.prod(step.out_size) * step.out_channels * taps
    elif isinstance(step, DotStep):
        flop = 2 * step.batch * step.m * step.n * step.k
    return Note(step.name, "xla", (), "", flop, sum(b.size for b in _buffers(step)))


def _buffers(step: Step) -> list[Buffer]:
    """Every buffer that a step names itself, not those of steps inside it."""
    found: list[Buffer] = []
    for value in (getattr(step, field.name) for field in fields(step)):
        found += [b for b in (value if isinstance(value, tuple) else (value,)) if isinstance(b, Buffer)]
    return found
