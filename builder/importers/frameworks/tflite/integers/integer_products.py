"""Sums of products on integers: convolutions, dense layers and matrix products.

A sum of bytes is exact in int32. Where XNNPACK takes the operator, it is multiplied by one float32 factor for each
channel and rounded to even; LiteRT's own kernels multiply in fixed point. Then it is moved by the zero point and cut
off.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.tflite.integers.fixed_point import (
    make_fixed_point,
    multiply,
    multiply_wide,
    round_away,
)
from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable, Value, centre, store
from builder.importers.frameworks.tflite.ops.products import (
    convolve,
    convolve_depthwise,
    flatten_rows,
    multiply_batches,
    transpose_convolution,
)
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()
_Product = Callable[[Any, Any, Any], Any]


def _is_delegated(name: str, x: Tensor, kernel: Tensor, output: Tensor) -> bool:
    """Say whether XNNPACK takes a layer, by what its delegate looks at."""
    assert kernel.quantisation
    if x.dtype.itemsize > 1 or not x.dtype == kernel.dtype == output.dtype:
        return False
    if name == "BATCH_MATMUL":
        return kernel.zero == 0
    if name != "FULLY_CONNECTED" and len(output.shape) != 4:
        return False
    if kernel.dtype == np.uint8:
        return kernel.data is not None and kernel.quantisation.axis == 0
    return kernel.data is not None and (name == "FULLY_CONNECTED" or kernel.kind != "INT4")


def _round_sum(name: str, options: Any, total: Value, x: Tensor, kernel: Tensor, output: Tensor) -> Value:
    """Return sums of products as integers of ``output``; the last dimension is that of channels."""
    assert kernel.quantisation
    scales = kernel.quantisation.scale
    if _is_delegated(name, x, kernel, output):
        factor = (x.step * scales / output.step).astype(np.float32)
        return store(jnp.round(total.astype(np.float32) * factor), output, options)
    products = np.float64(x.step) * scales.astype(np.float64)
    wide = total.dtype == np.int64
    if wide and name == "FULLY_CONNECTED":
        return store(round_away(total.astype(np.float64) * (products / np.float64(output.step))), output, options)
    if x.dtype == np.uint8 or (name in ("BATCH_MATMUL", "FULLY_CONNECTED") and scales.size == 1):
        products = (x.step * scales).astype(np.float64)
    factor = make_fixed_point(products / np.float64(output.step))
    grouped = name == "CONV_2D" and x.shape[-1:] != kernel.shape[-1:]
    upwards = name in ("CONV_2D", "FULLY_CONNECTED") and not grouped  # Ruy multiplies these matrices.
    scaled = multiply_wide(total, factor) if wide else multiply(total, factor, upwards=upwards)
    return store(scaled, output, options)


def _is_summed_wide(name: str, options: Any, x: Tensor, bias: Value) -> bool:
    """Say whether LiteRT adds up products of 16 bits in int64."""
    if x.dtype.itemsize == 1 or getattr(options, "quantizedBiasType", 0) == schema.TensorType.INT32:
        return False
    return name != "FULLY_CONNECTED" or (bias is not None and bias.dtype == np.int64)


def _compute_layer(
    name: str, product: _Product, options: Any, tensors: Sequence[Tensor], output: Tensor, *values: Value
) -> Value:
    (x_tensor, kernel_tensor), (x, kernel), bias = tensors[:2], values[:2], (*values, None)[2]
    kind = np.int64 if _is_summed_wide(name, options, x_tensor, bias) else np.int32
    total = product(options, centre(x, x_tensor).astype(kind), centre(kernel, kernel_tensor).astype(kind))
    total = total if bias is None else total + bias.astype(kind)
    return _round_sum(name, options, total, x_tensor, kernel_tensor, output)


def _multiply_rows(options: Any, x: Any, kernel: Any) -> Any:
    rows = flatten_rows(options, x, kernel)
    return lax.dot_general(rows, jnp.asarray(kernel), (((rows.ndim - 1,), (1,)), ((), ())))


for _name, _product in {
    "CONV_2D": convolve, "DEPTHWISE_CONV_2D": convolve_depthwise, "FULLY_CONNECTED": _multiply_rows,
    "BATCH_MATMUL": multiply_batches,
}.items():  # fmt: skip
    OPS[_name] = functools.partial(_compute_layer, _name, _product)


def compute_transposed(
    compute: Callable[..., Value], options: Any, tensors: Sequence[Tensor], output: Tensor, *values: Value
) -> Value:
    """Return what ``compute`` makes of a transposed convolution, whose inputs have an order of their own."""
    shape, kernel, x, *bias = values

    def product(options: Any, x: Any, kernel: Any) -> Any:
        return transpose_convolution(options, shape, kernel, x)

    return compute(product, options, (tensors[2], tensors[1]), output, x, kernel, *bias)


OPS["TRANSPOSE_CONV"] = functools.partial(compute_transposed, functools.partial(_compute_layer, "TRANSPOSE_CONV"))
