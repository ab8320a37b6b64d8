"""Floats rounded to bytes, as the integer kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import View


@dataclass(frozen=True)
class Quantisation:
    """A rounding of a layer's input x to bytes: ``byte = clamp(rint(x * (1 / scale)) + zero, 0, 255)``.

    A byte stands for ``(byte - zero) * scale``, and ``zero``, 0 to 255, for exactly 0.0, so that padding is exact. 1 /
    scale and its product with x are float32; ties go to even numbers, and NaN becomes ``zero``.
    """

    scale: float
    zero: int


STATE_ROUNDING = Quantisation(1 / 127, 128)
"""Rounding of an LSTM's or GRU's state that begins, and so stays, between -1 and 1: nothing has to be measured."""


@dataclass(frozen=True)
class RoundedImage:
    """An image of bytes, as integer sums read it: ``view`` in bytes, with ``halo`` around it as in LayerStep.

    They are signed if the target's instructions need that: see CF_BYTES_LESS in runtime/fused/vector.h.
    """

    view: View
    halo: tuple[int, int, int, int]
    by: Quantisation
