"""How the integer kernels round their input, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.steps.quantisation import Quantisation
from builder.verify.quantise.calibrate import LEVELS

Array = NDArray[np.float32]


def to_bytes(values: Array, by: Quantisation) -> NDArray[np.uint8]:
    """``values`` rounded as the integer kernels round their input."""
    with np.errstate(all="ignore"):
        steps = np.rint(np.asarray(values, np.float32) * (np.float32(1) / np.float32(by.scale)))
    steps = np.where(np.isnan(steps), np.float32(0), steps)
    numbers: NDArray[np.uint8] = np.clip(steps + np.float32(by.zero), 0, LEVELS).astype(np.uint8)
    return numbers


def from_bytes(numbers: NDArray[np.uint8], by: Quantisation) -> Array:
    """What the bytes stand for."""
    return (numbers.astype(np.float32) - np.float32(by.zero)) * np.float32(by.scale)
