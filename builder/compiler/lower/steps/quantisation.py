"""Floats rounded to bytes, as the integer kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

from builder.compiler.lower.steps.base import View


@dataclass(frozen=True)
class Quantisation:
    """A layer's input as bytes: ``byte = clamp(rint(x * (1 / scale)) + zero, 0, 255)``, which stands for
    ``(byte - zero) * scale``. ``zero``, 0 to 255, stands for exactly 0.0, so that padding is exact. 1 / scale and its
    product with x are float32; ties go to the even number, and NaN becomes ``zero``."""

    scale: float
    zero: int


STATE_ROUNDING = Quantisation(1 / 127, 128)
"""Of the state of an LSTM or GRU that began between -1 and 1: it stays there, so nothing has to be measured."""


@dataclass(frozen=True)
class RoundedImage:
    """A picture of bytes, as integer sums read it: ``view`` in bytes, with ``halo`` around it as LayerStep has it.

    They are signed where the target's instructions want that: see CF_BYTES_LESS in runtime/fused/vector.h.
    """

    view: View
    halo: tuple[int, int, int, int]
    by: Quantisation
