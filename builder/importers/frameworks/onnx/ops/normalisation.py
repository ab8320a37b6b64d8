"""Normalisations, and softmax with its relatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value, spread_channels
from builder.importers.frameworks.onnx.ops.elementwise import cast_type
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _hardmax(x: Value, axis: int) -> Value:
    return jnp.moveaxis(jax.nn.one_hot(jnp.argmax(x, axis), x.shape[axis], dtype=x.dtype), -1, axis)


def normalise_axis(function: Callable[..., Any], x: Value, *, axis: int | None = None, opset: int) -> Value:
    """Apply a softmax along ``axis``; before opset 13, along all dimensions from ``axis`` on together."""
    if opset >= 13:
        return function(jnp.asarray(x), axis=-1 if axis is None else axis)
    first = (1 if axis is None else axis) % np.ndim(x)
    return function(jnp.reshape(x, (math.prod(np.shape(x)[:first]), -1)), axis=-1).reshape(np.shape(x))


for _name, _function in {"Softmax": jax.nn.softmax, "LogSoftmax": jax.nn.log_softmax, "Hardmax": _hardmax}.items():
    OPS.enter(_name, functools.partial(normalise_axis, _function))


@OPS.define("BatchNormalization")
def batch_normalise(
    x: Value, scale: Value, bias: Value, mean: Value, variance: Value, *, epsilon: float = 1e-5, **keys: Any
) -> Any:
    """Return each channel less its mean, divided by its deviation, scaled and shifted.

    In training mode mean and variance are those of the batch, and their running averages are further outputs.
    """
    if not keys.get("training_mode"):
        factor = scale / jnp.sqrt(variance + np.asarray(epsilon, variance.dtype))
        shift = bias - mean * factor
        return (x * spread_channels(factor, np.ndim(x)) + spread_channels(shift, np.ndim(x))).astype(x.dtype)
    axes, momentum = (0, *range(2, np.ndim(x))), keys.get("momentum", 0.9)
    own = jnp.mean(x, axes), jnp.var(x, axes)
    averages = [old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), own, strict=True)]
    return batch_normalise(x, scale, bias, *own, epsilon=epsilon), *(jnp.asarray(value, x.dtype) for value in averages)


def _standardise(x: Value, axes: tuple[int, ...], epsilon: float) -> tuple[Value, Value, Value]:
    """Return ``x`` less its mean and divided by its deviation along ``axes``, the mean, and one over the deviation."""
    mean = jnp.mean(x, axes, keepdims=True)
    difference = x - mean
    inverse = lax.rsqrt(jnp.mean(jnp.square(difference), axes, keepdims=True) + np.asarray(epsilon, x.dtype))
    return difference * inverse, mean, inverse


@OPS.define("LayerNormalization")
def layer_normalise(x: Value, scale: Value, bias: Value = None, *, axis: int = -1, outputs: int, **keys: Any) -> Any:
    """Return ``x`` standardised over the dimensions from ``axis`` on, scaled and shifted; its mean and deviation."""
    axes = tuple(range(axis % np.ndim(x), np.ndim(x)))
    wide = cast_type(x, keys.get("stash_type", 1))
    values, mean, inverse = _standardise(wide, axes, keys.get("epsilon", 1e-5))
    result = values.astype(x.dtype) * scale
    return (result if bias is None else result + bias, mean, inverse)[:outputs]


@OPS.define("RMSNormalization", "SimplifiedLayerNormalization")  # ONNX Runtime writes the second one.
def rms_normalise(x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Value:
    """Return ``x`` divided by the root of its mean square over the dimensions from ``axis`` on, and scaled."""
    values = cast_type(x, stash_type)
    squares = jnp.mean(jnp.square(values), tuple(range(axis % np.ndim(x), np.ndim(x))), keepdims=True)
    return (values * lax.rsqrt(squares + np.asarray(epsilon, values.dtype))).astype(x.dtype) * scale


@OPS.define("InstanceNormalization")
def instance_normalise(x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    """Return each channel of each example standardised, scaled and shifted."""
    values, _, _ = _standardise(jnp.asarray(x), tuple(range(2, np.ndim(x))), epsilon)
    return values * spread_channels(scale, np.ndim(x)) + spread_channels(bias, np.ndim(x))


@OPS.define("GroupNormalization")
def group_normalise(x: Value, scale: Value, bias: Value, *, num_groups: int, opset: int, **keys: Any) -> Value:
    """Return each group of channels standardised, scaled and shifted by channel (by group before opset 21)."""
    shape = np.shape(x)
    groups = cast_type(jnp.reshape(x, (shape[0], num_groups, -1)), keys.get("stash_type", 1))
    values = _standardise(groups, (2,), keys.get("epsilon", 1e-5))[0].astype(x.dtype)
    values = values if opset < 21 else values.reshape(shape)
    return (values * spread_channels(scale, values.ndim) + spread_channels(bias, values.ndim)).reshape(shape)


@OPS.define("LpNormalization")
def norm_normalise(x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """Return ``x`` divided by its p-norm along ``axis``; where that is zero, zero."""
    norm = jnp.linalg.norm(x, p, axis, keepdims=True)
    return jnp.where(norm == 0, 0, x / jnp.where(norm == 0, 1, norm)).astype(x.dtype)


@OPS.define("LRN")
def normalise_across_channels(
    x: Value, *, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Value:
    """Return ``x`` divided by a power of the mean square of the channels around each."""
    rest = np.ndim(x) - 2
    window, pads = (1, size) + (1,) * rest, [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * rest]
    squares = lax.reduce_window(jnp.square(x), np.asarray(0, x.dtype), lax.add, window, (1,) * np.ndim(x), pads)
    offset, factor, power = (np.asarray(value, x.dtype) for value in (bias, alpha / size, beta))
    return x / jnp.power(offset + factor * squares, power)
