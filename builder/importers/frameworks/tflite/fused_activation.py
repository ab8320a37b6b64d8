"""Activations that other operators of LiteRT contain."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from ai_edge_litert import schema_py_generated as schema

_FUSED = schema.ActivationFunctionType
ACTIVATION_BOUNDS: dict[int, tuple[float | None, float | None]] = {
    _FUSED.NONE: (None, None), _FUSED.RELU: (0.0, None), _FUSED.RELU_N1_TO_1: (-1.0, 1.0), _FUSED.RELU6: (0.0, 6.0),
}  # fmt: skip
"""The bounds of those that cut off, by their number in the file."""


def activate(x: Any, options: Any) -> Any:
    """Return ``x`` after the activation of an operator with ``options``."""
    number = getattr(options, "fusedActivationFunction", _FUSED.NONE)
    if number == _FUSED.TANH:
        return jnp.tanh(x)
    if number == _FUSED.SIGN_BIT:
        return jnp.where(x < 0, 1, 0).astype(x.dtype)
    low, high = ACTIVATION_BOUNDS[number]
    return x if low is None and high is None else jnp.clip(x, low, high)
