"""The table of operators on quantised tensors, and integers without their zero point and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from builder.importers.frameworks.tflite.fused_activation import ACTIVATION_BOUNDS
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

Value = Any
IntegerOperator = Callable[..., Value]


class IntegerTable(dict[str, IntegerOperator]):
    """Operators on integers by name: functions of options, input tensors, output tensor and the inputs' integers.

    They return the output's integers; recurrent ones, those of the new states after them.
    """

    def define(self, *names: str) -> Callable[[IntegerOperator], IntegerOperator]:
        """Return a decorator that enters a function as the operators ``names``."""

        def enter(function: IntegerOperator) -> IntegerOperator:
            self.update(dict.fromkeys(names, function))
            return function

        return enter


def centre(value: Value, tensor: Tensor) -> Value:
    """Return integers less their zero point, as int32."""
    assert tensor.quantisation
    _, zero = tensor.quantisation.spread(np.ndim(value))
    module = np if isinstance(value, np.ndarray) else jnp
    return module.asarray(value).astype(np.int32) - zero.astype(np.int32)


def store(value: Value, output: Tensor, options: Any = None) -> Value:
    """Return integers, counted from the zero point, as ``output`` holds them after the activation of ``options``."""
    number = getattr(options, "fusedActivationFunction", schema.ActivationFunctionType.NONE)
    return store_between(value, output, ACTIVATION_BOUNDS[number])


def store_between(value: Value, output: Tensor, bounds: tuple[float | None, float | None]) -> Value:
    """Return integers, counted from the zero point, as ``output`` holds them, cut off at two real numbers."""
    limits = np.iinfo(output.dtype)
    least, most = (
        default if bound is None else min(max(round(bound / output.step) + output.zero, limits.min), limits.max)
        for bound, default in zip(bounds, (limits.min, limits.max), strict=True)
    )
    return jnp.clip(value + output.zero, least, most).astype(output.dtype)


def take_blocks(first: Value, rest: Value, block: int) -> Value:
    """Return ``first`` in whole blocks of elements, and ``rest`` in what remains.

    LiteRT's vector instructions round otherwise than the loop that ends what they began.
    """
    size = int(np.prod(first.shape))
    places = np.arange(size).reshape(first.shape)
    return first if size % block == 0 else jnp.where(places < size - size % block, first, rest)
