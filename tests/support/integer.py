"""An integer layer's answer in NumPy: whole numbers to the end of its sums, of the bytes in the program's weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.layer_step import LayerStep
from tests.support.quantise import to_bytes

PANEL, QUAD = 16, 4


def layer(
    step: LayerStep, program: Program, data: NDArray[np.float32], residual: NDArray[np.float32] | None
) -> NDArray[np.float64]:
    """Of ``data`` [batch, height, width, channels], without its padding; the activation must be a clamp or none."""
    assert step.quantisation is not None
    shape = step.geometry
    assert step.epilogue.activation in ("identity", "clamp")
    numbers = to_bytes(data, step.quantisation).astype(np.int64) - step.quantisation.zero
    sums = convolution(numbers, kernel(step, program), step)
    scale = _vector(program, step.weight_scale, np.float32)[: shape.out_channels].astype(np.float64)
    values = sums * scale * np.float32(step.quantisation.scale)
    values += _vector(program, step.epilogue.bias, np.float32)[: shape.out_channels]
    if residual is not None:
        factor: Any = 1.0
        if step.epilogue.residual_scale is not None:
            factor = _vector(program, step.epilogue.residual_scale, np.float32)[: shape.out_channels]
        values += residual * factor
    if step.epilogue.activation == "clamp":
        values = np.clip(values, step.epilogue.low, step.epilogue.high)
    return values


def kernel(step: LayerStep, program: Program) -> NDArray[np.int64]:
    """[height, width, in channels, out channels], out of the panels."""
    shape = step.geometry
    (height, width), across, outer = shape.kernel_size, shape.stride[1], shape.out_channels
    wide, quads = width + (step.joined - 1) * across, -(-shape.in_channels // QUAD)
    panels = _vector(program, step.weights, np.int8).reshape(-1, height, wide, quads, PANEL, QUAD)
    whole = panels.transpose(1, 2, 3, 5, 0, 4).reshape(height, wide, quads * QUAD, -1).astype(np.int64)
    assert not whole[:, :, shape.in_channels :].any()
    one = whole[:, :width, : shape.in_channels, :outer]
    for pixel in range(step.joined):
        its = whole[..., pixel * outer : (pixel + 1) * outer]
        np.testing.assert_array_equal(its[:, pixel * across : pixel * across + width, : shape.in_channels], one)
        assert np.count_nonzero(its) == np.count_nonzero(one)
    return one


def convolution(data: NDArray[np.int64], weights: NDArray[np.int64], step: LayerStep) -> NDArray[np.int64]:
    """[batch, height, width, out channels] of whole numbers."""
    shape = step.geometry
    batch, height, width, channels = data.shape
    spans = [
        (out - 1) * stride + (size - 1) * dilation + 1
        for out, stride, size, dilation in zip(
            shape.out_size, shape.stride, shape.kernel_size, shape.dilation, strict=True
        )
    ]
    top, left = step.padding
    padded = np.zeros((batch, max(spans[0], top + height), max(spans[1], left + width), channels), np.int64)
    padded[:, top : top + height, left : left + width] = data
    sums = np.zeros((batch, *shape.out_size, weights.shape[-1]), np.int64)
    for i, j in np.ndindex(*shape.kernel_size):
        rows = slice(
            i * shape.dilation[0],
            i * shape.dilation[0] + (shape.out_size[0] - 1) * shape.stride[0] + 1,
        )
        columns = slice(
            j * shape.dilation[1],
            j * shape.dilation[1] + (shape.out_size[1] - 1) * shape.stride[1] + 1,
        )
        part = padded[:, rows, columns][:, :: shape.stride[0], :: shape.stride[1]]
        sums += part @ weights[i, j]
    return sums


def _vector(program: Program, buffer: Buffer | None, dtype: Any) -> NDArray[Any]:
    assert buffer is not None
    weight = next(w for w in program.weights if w.offset == buffer.offset)
    return np.frombuffer(weight.data[: buffer.size], dtype)
