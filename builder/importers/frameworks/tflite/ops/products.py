"""Convolutions, dense layers and products of matrices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.graph_values import Value, read_ints
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tflite.fused_activation import activate

OPS = OperatorTable()

_LAYOUTS = {2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}
"""The dimensions of inputs, kernels and results, by the number of those that a window moves over."""


def name_padding(options: Any) -> str:
    """Return what JAX calls the padding of a window."""
    return "SAME" if options.padding == schema.Padding.SAME else "VALID"


def _read_sides(options: Any, name: str, rank: int) -> tuple[int, ...]:
    """Return the numbers that the options have for each side of a window, such as its strides."""
    return tuple(getattr(options, name.format(side)) for side in "DHW"[3 - rank :])


def _convolve_spatial(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of ``x`` [n, *spatial, c] with ``kernel`` [*spatial, c / groups, o]."""
    rank = np.ndim(x) - 2
    return lax.conv_general_dilated(
        *(jnp.asarray(x), jnp.asarray(kernel), _read_sides(options, "stride{}", rank), name_padding(options)),
        rhs_dilation=_read_sides(options, "dilation{}Factor", rank),
        dimension_numbers=_LAYOUTS[rank],
        feature_group_count=np.shape(x)[-1] // np.shape(kernel)[-2],
    )


def convolve(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of ``x`` [n, h, w, c] with ``kernel`` [o, h, w, c / groups]."""
    return _convolve_spatial(options, x, jnp.transpose(kernel, (1, 2, 3, 0)))


def convolve_depthwise(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of each channel of ``x`` [n, h, w, c] with its part of ``kernel`` [1, h, w, c × m]."""
    _, rows, columns, outputs = np.shape(kernel)
    return _convolve_spatial(options, x, jnp.reshape(kernel, (rows, columns, 1, outputs)))


def flatten_rows(options: Any, x: Value, kernel: Value) -> Value:
    """Return ``x`` as rows of the length of those of ``kernel``, unless its dimensions are kept."""
    return jnp.asarray(x) if options.keepNumDims else jnp.reshape(x, (-1, np.shape(kernel)[1]))


def multiply_rows(options: Any, x: Value, kernel: Value) -> Value:
    """Return the product of rows with ``kernel`` [o, c]."""
    if options.weightsFormat != schema.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise ValueError("its weights are shuffled for one processor: convert the model again, without that")
    return jnp.matmul(flatten_rows(options, x, kernel), jnp.transpose(kernel))


def _transpose_spatial(options: Any, shape: Value, kernel: Value, x: Value) -> Value:
    """Return the image of ``shape`` whose convolution ``x`` could be; ``kernel``: [*spatial, c, o]."""
    rank, pads = np.ndim(x) - 2, []
    strides = _read_sides(options, "stride{}", rank)
    for size, count, stride, extent in zip(
        read_ints(shape)[1:-1], np.shape(x)[1:-1], strides, np.shape(kernel), strict=False
    ):
        whole = (count - 1) * stride + extent
        before = max(whole - size, 0) // 2 if name_padding(options) == "SAME" else 0
        pads.append((extent - 1 - before, size - whole + extent - 1 + before))
    flipped = jnp.flip(kernel, range(rank))
    return lax.conv_general_dilated(
        jnp.asarray(x), flipped, (1,) * rank, pads, lhs_dilation=strides, dimension_numbers=_LAYOUTS[rank]
    )


def transpose_convolution(options: Any, shape: Value, kernel: Value, x: Value) -> Value:
    """Return the image of ``shape`` whose convolution ``x`` could be; ``kernel``: [o, h, w, c]."""
    return _transpose_spatial(options, shape, jnp.transpose(kernel, (1, 2, 3, 0)), x)


def _transpose_volumes(options: Any, shape: Value, kernel: Value, x: Value) -> Value:
    return _transpose_spatial(options, shape, jnp.swapaxes(kernel, 3, 4), x)


_LAYERS: dict[str, tuple[int, Callable[..., Value]]] = {
    "CONV_2D": (2, convolve), "CONV_3D": (2, _convolve_spatial), "DEPTHWISE_CONV_2D": (2, convolve_depthwise),
    "FULLY_CONNECTED": (2, multiply_rows), "TRANSPOSE_CONV": (3, transpose_convolution),
    "CONV_3D_TRANSPOSE": (3, _transpose_volumes),
}  # fmt: skip
"""The sums of products of layers; the input after those that they take, if there is one, is the bias."""


def _compute_layer(count: int, product: Callable[..., Value], options: Any, *inputs: Value) -> Value:
    total, bias = product(options, *inputs[:count]), (*inputs, None)[count]
    return activate(total if bias is None else total + bias, options)


for _name, _layer in _LAYERS.items():
    OPS.enter(_name, functools.partial(_compute_layer, *_layer))


@OPS.define("BATCH_MATMUL")
def multiply_batches(options: Any, a: Value, b: Value) -> Value:
    """Return products of matrices, each transposed or not."""
    return jnp.matmul(jnp.swapaxes(a, -1, -2) if options.adjX else a, jnp.swapaxes(b, -1, -2) if options.adjY else b)
