"""Convolutions, dense layers and products of matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.graph_values import Value, read_ints
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tflite.fused_activation import activate

OPS = OperatorTable()

_IMAGES, _VOLUMES = ("NHWC", "HWIO", "NHWC"), ("NDHWC", "DHWIO", "NDHWC")


def name_padding(options: Any) -> str:
    """Return what JAX calls the padding of a window."""
    return "SAME" if options.padding == schema.Padding.SAME else "VALID"


def _convolve_images(options: Any, x: Value, kernel: Value, groups: int) -> Value:
    return lax.conv_general_dilated(
        jnp.asarray(x),
        kernel,
        (options.strideH, options.strideW),
        name_padding(options),
        rhs_dilation=(options.dilationHFactor, options.dilationWFactor),
        dimension_numbers=_IMAGES,
        feature_group_count=groups,
    )


def convolve(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of ``x`` [n, h, w, c] with ``kernel`` [o, h, w, c / groups]."""
    return _convolve_images(options, x, jnp.transpose(kernel, (1, 2, 3, 0)), np.shape(x)[-1] // np.shape(kernel)[-1])


def convolve_depthwise(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of each channel of ``x`` [n, h, w, c] with its part of ``kernel`` [1, h, w, c × m]."""
    _, rows, columns, outputs = np.shape(kernel)
    return _convolve_images(options, x, jnp.reshape(kernel, (rows, columns, 1, outputs)), np.shape(x)[-1])


def flatten_rows(options: Any, x: Value, kernel: Value) -> Value:
    """Return ``x`` as rows of the length of those of ``kernel``, unless its dimensions are kept."""
    return jnp.asarray(x) if options.keepNumDims else jnp.reshape(x, (-1, np.shape(kernel)[1]))


def _add_bias(total: Value, bias: Value, options: Any) -> Value:
    return activate(total if bias is None else total + bias, options)


for _name, _function in (("CONV_2D", convolve), ("DEPTHWISE_CONV_2D", convolve_depthwise)):
    OPS.enter(_name, lambda options, x, w, bias=None, _f=_function: _add_bias(_f(options, x, w), bias, options))


@OPS.define("CONV_3D")
def convolve_volumes(options: Any, x: Value, kernel: Value, bias: Value = None) -> Value:
    """Return a convolution of ``x`` [n, d, h, w, c] with ``kernel`` [d, h, w, c, o]."""
    strides = (options.strideD, options.strideH, options.strideW)
    dilations = (options.dilationDFactor, options.dilationHFactor, options.dilationWFactor)
    total = lax.conv_general_dilated(
        *(jnp.asarray(x), jnp.asarray(kernel), strides, name_padding(options)),
        rhs_dilation=dilations,
        dimension_numbers=_VOLUMES,
        feature_group_count=np.shape(x)[-1] // np.shape(kernel)[-2],
    )
    return _add_bias(total, bias, options)


def transpose_convolution(options: Any, shape: Value, kernel: Value, x: Value, strides: tuple[int, ...]) -> Value:
    """Return the image of ``shape`` whose convolution ``x`` could be; ``kernel``: [*spatial, c, o]."""
    pads = []
    for size, count, stride, extent in zip(
        read_ints(shape)[1:-1], np.shape(x)[1:-1], strides, np.shape(kernel), strict=False
    ):
        whole = (count - 1) * stride + extent
        before = max(whole - size, 0) // 2 if name_padding(options) == "SAME" else 0
        pads.append((extent - 1 - before, size - whole + extent - 1 + before))
    flipped = jnp.flip(kernel, range(len(strides)))
    names = _IMAGES if len(strides) == 2 else _VOLUMES
    return lax.conv_general_dilated(
        jnp.asarray(x), flipped, (1,) * len(strides), pads, lhs_dilation=strides, dimension_numbers=names
    )


@OPS.define("TRANSPOSE_CONV")
def transpose_image_convolution(options: Any, shape: Value, kernel: Value, x: Value, bias: Value = None) -> Value:
    """Return a transposed convolution with ``kernel`` [o, h, w, c]."""
    last = jnp.transpose(kernel, (1, 2, 3, 0))
    total = transpose_convolution(options, shape, last, x, (options.strideH, options.strideW))
    return _add_bias(total, bias, options)


@OPS.define("CONV_3D_TRANSPOSE")
def transpose_volume_convolution(options: Any, shape: Value, kernel: Value, x: Value, bias: Value = None) -> Value:
    """Return a transposed convolution with ``kernel`` [d, h, w, o, c]."""
    strides = (options.strideD, options.strideH, options.strideW)
    total = transpose_convolution(options, shape, jnp.swapaxes(kernel, 3, 4), x, strides)
    return _add_bias(total, bias, options)


@OPS.define("FULLY_CONNECTED")
def connect_fully(options: Any, x: Value, kernel: Value, bias: Value = None) -> Value:
    """Return the product of rows with ``kernel`` [o, c], with bias and activation."""
    if options.weightsFormat != schema.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise ValueError("its weights are shuffled for one processor: convert the model again, without that")
    return _add_bias(jnp.matmul(flatten_rows(options, x, kernel), jnp.transpose(kernel)), bias, options)


@OPS.define("BATCH_MATMUL")
def multiply_batches(options: Any, a: Value, b: Value) -> Value:
    """Return products of matrices, each transposed or not."""
    return jnp.matmul(jnp.swapaxes(a, -1, -2) if options.adjX else a, jnp.swapaxes(b, -1, -2) if options.adjY else b)
