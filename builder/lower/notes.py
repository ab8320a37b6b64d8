"""What is told about a step of the optimised path."""

from __future__ import annotations

from dataclasses import dataclass


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
