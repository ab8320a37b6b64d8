"""Per-channel scales and shifts (BatchNorm, bias, negation ...) folded into one scale and one shift, in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.hlo import Value, find_channel_vector, find_split_channel_vector

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Affine:
    """``sums * scale + shift + residual * residual_scale``, each per channel."""

    scale: Vector
    shift: Vector
    residual: Value | None = None
    residual_scale: Vector | None = None

    @classmethod
    def make_identity(cls, channels: int) -> Affine:
        """Return the affine that changes nothing."""
        return cls(np.ones(channels), np.zeros(channels))

    def multiply_by(self, factor: Vector) -> Affine:
        """Multiply the result by ``factor``, per channel."""
        scaled = None if self.residual_scale is None else self.residual_scale * factor
        return replace(self, scale=self.scale * factor, shift=self.shift * factor, residual_scale=scaled)

    def add_term(self, term: Vector) -> Affine:
        """Add ``term`` to the result, per channel."""
        return replace(self, shift=self.shift + term)

    def add_residual(self, residual: Value, sign: float) -> Affine:
        """Add ``residual``, or subtract it if ``sign`` is -1."""
        return replace(self, residual=residual, residual_scale=np.full(self.scale.size, sign))

    @property
    def uniform(self) -> bool:
        """True if it is the same for all channels, and multiplies by something else than 0."""
        return bool((self.scale == self.scale[0]).all() and (self.shift == self.shift[0]).all() and self.scale[0])

    @property
    def finite(self) -> bool:
        """True if it can be folded: the result in float32 has neither infinities nor NaN."""
        vectors = [self.scale, self.shift, *([] if self.residual_scale is None else [self.residual_scale])]
        return all(np.isfinite(v).all() and (np.abs(v) < 1e30).all() for v in vectors)


def fold_operation(user: Value, current: Value, so_far: Affine) -> Affine | None:
    """Add the arithmetic of ``user`` to ``so_far``, which computes ``current``; return None if it is not affine."""
    if user.op == "negate":
        return so_far.multiply_by(np.full(so_far.scale.size, -1.0))
    if user.op not in ("add", "subtract", "multiply", "divide") or len({*user.operands}) != 2:
        return None
    first = user.operands[0] is current
    other = user.operands[1 if first else 0]
    vector = find_channel_vector(other)
    if vector is None:
        vector = find_split_channel_vector(other, so_far.scale.size)
    if vector is None or vector.size not in (1, so_far.scale.size):
        return None
    vector = np.broadcast_to(vector, so_far.scale.shape)
    folded = None
    match user.op:
        case "add":
            folded = so_far.add_term(vector)
        case "multiply":
            folded = so_far.multiply_by(vector)
        case "subtract":
            folded = so_far.add_term(-vector) if first else so_far.multiply_by(-np.ones_like(vector)).add_term(vector)
        case "divide" if first and (vector != 0).all():
            folded = so_far.multiply_by(1 / vector)
    return folded if folded is not None and folded.finite else None
