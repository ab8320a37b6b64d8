"""Operators on integers whose results LiteRT's quantised kernels define to the byte.

A sum of products is exact in int32; it is multiplied by one float32 factor for each channel, rounded to even, moved by
the zero point and cut off at the bounds of the type and of the fused activation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.tflite.fused_activation import ACTIVATION_BOUNDS
from builder.importers.frameworks.tflite.ops.products import convolve, convolve_depthwise, flatten_rows
from builder.importers.frameworks.tflite.tflite_tensors import Tensor


def _centre(value: Any, tensor: Tensor) -> Any:
    """Return integers less their zero point, as int32."""
    assert tensor.quantisation
    zero = tensor.quantisation.spread(tensor.quantisation.zero, np.ndim(value)).astype(np.int32)
    module = np if isinstance(value, np.ndarray) else jnp
    return module.asarray(value).astype(np.int32) - zero


def _round_sum(total: Any, x: Tensor, kernel: Tensor, output: Tensor, activation: int) -> Any:
    """Return int32 sums of products as integers of ``output``; the last dimension is that of channels."""
    assert x.quantisation
    assert kernel.quantisation
    assert output.quantisation
    scale, zero = output.quantisation.scale[0], int(output.quantisation.zero[0])
    factor = (x.quantisation.scale[0] * kernel.quantisation.scale / scale).astype(np.float32)
    limits = np.iinfo(output.dtype)
    low, high = ACTIVATION_BOUNDS[activation]
    least = limits.min if low is None else max(limits.min, round(low / scale) + zero)
    most = limits.max if high is None else min(limits.max, round(high / scale) + zero)
    return jnp.clip(jnp.round(total.astype(np.float32) * factor) + zero, least, most).astype(output.dtype)


def _make_product(multiply: Callable[..., Any]) -> Callable[..., Any]:
    """Return the operator on integers that sums products as ``multiply`` does, with a bias and an activation."""

    def compute(
        options: Any, tensors: Sequence[Tensor | None], output: Tensor, x: Any, kernel: Any, bias: Any = None
    ) -> Any:
        x_tensor, kernel_tensor = tensors[:2]
        assert x_tensor
        assert kernel_tensor
        total = multiply(options, _centre(x, x_tensor), _centre(kernel, kernel_tensor))
        total = total if bias is None else total + bias.astype(np.int32)
        return _round_sum(total, x_tensor, kernel_tensor, output, options.fusedActivationFunction)

    return compute


def _multiply_rows(options: Any, x: Any, kernel: Any) -> Any:
    return lax.dot_general(
        flatten_rows(options, x, kernel),
        jnp.asarray(kernel),
        (((flatten_rows(options, x, kernel).ndim - 1,), (1,)), ((), ())),
    )


INTEGER_OPERATORS: dict[str, Callable[..., Any]] = {
    "CONV_2D": _make_product(convolve),
    "DEPTHWISE_CONV_2D": _make_product(convolve_depthwise),
    "FULLY_CONNECTED": _make_product(_multiply_rows),
}
