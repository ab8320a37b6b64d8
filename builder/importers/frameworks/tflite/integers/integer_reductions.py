"""Sums, means, pools and softmax of quantised tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import list_axes, read_ints
from builder.importers.frameworks.tflite.integers.fixed_point import FixedPoint, invert_root, make_fixed_point, multiply
from builder.importers.frameworks.tflite.integers.integer_tables import interpolate
from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable, Value, centre, store
from builder.importers.frameworks.tflite.ops.aggregation import count_in_windows, pool
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

OPS = IntegerTable()


def _sum(mean: bool, options: Any, tensors: Sequence[Tensor], output: Tensor, x: Value, axes: Value) -> Value:
    tensor = tensors[0]
    chosen = list_axes(axes, np.ndim(x))
    count = int(np.prod([np.shape(x)[axis] for axis in set(chosen)]))
    if tensor.dtype.itemsize == 2 and mean:
        total = jnp.sum(centre(x, tensor), chosen, dtype=np.int32, keepdims=bool(options.keepDims))
        return store(
            multiply(total, _divide_factor(make_fixed_point(np.float64(tensor.step) / output.step), count)), output
        )
    total = jnp.sum(jnp.asarray(x).astype(np.int32), chosen, dtype=np.int32, keepdims=bool(options.keepDims))
    scale = np.float32(tensor.step / output.step)
    scale = scale * (np.float32(1) / np.float32(count)) if mean else scale
    zero = np.float32(output.zero) - np.float32(count * tensor.zero) * scale
    # The product is rounded to float32 before the sum: a fused multiplication would give other bytes.
    rounded = jnp.round((total.astype(np.float64) * np.float64(scale)).astype(np.float32) + zero)
    limits = np.iinfo(output.dtype)
    return jnp.clip(rounded, limits.min, limits.max).astype(output.dtype)


def _divide_factor(factor: FixedPoint, count: int) -> FixedPoint:
    shift = min(count.bit_length() - 1, 32, 31 + int(factor.shift))
    return FixedPoint((factor.value << shift) // count, factor.shift - shift)


OPS["SUM"] = functools.partial(_sum, False)
OPS["MEAN"] = functools.partial(_sum, True)


@OPS.define("MAX_POOL_2D")
def _max_pool(options: Any, _: Any, output: Tensor, x: Value) -> Value:
    result = pool(options, jnp.asarray(x), np.iinfo(output.dtype).min, lax.max)
    return store(result.astype(np.int32) - output.zero, output, options)


@OPS.define("AVERAGE_POOL_2D")
def _average_pool(options: Any, _: Any, output: Tensor, x: Value) -> Value:
    total = pool(options, jnp.asarray(x).astype(np.int32), 0, lax.add)
    counts = count_in_windows(options, np.shape(x), np.float64)
    if output.dtype.itemsize == 2:  # float32 is too coarse for its means
        counts = counts.astype(np.int32)
        rounded = jnp.sign(total) * ((jnp.abs(total) + counts // 2) // counts)
        return store(rounded - output.zero, output, options)
    # XLA may multiply by a reciprocal: float32 takes its error away before halves are rounded away from zero.
    mean = lax.round((total.astype(np.float64) / counts).astype(np.float32), lax.RoundingMethod.AWAY_FROM_ZERO)
    return store(mean.astype(np.int32) - output.zero, output, options)


def _tabulate_powers(step: Any) -> Any:
    """Return e to the powers of 0, -step, …, -255 × step."""
    return np.exp((-step * np.arange(256).astype(np.float32)).astype(np.float64)).astype(np.float32)


@OPS.define("SOFTMAX")
def _softmax(options: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    tensor, beta = tensors[0], np.float32(options.beta)
    integers = jnp.asarray(x).astype(np.int32)
    below = integers - jnp.max(integers, -1, keepdims=True)
    if tensor.dtype.itemsize == 2:
        return _softmax_wide(below, tensor.step * beta)
    exponentials = jnp.asarray(_tabulate_powers(tensor.step * beta))[-below]
    inverse = np.float32(1) / (jnp.sum(exponentials, -1, keepdims=True) * output.step)
    return store(jnp.floor(exponentials * inverse + np.float32(0.5)), output)


def _softmax_wide(below: Value, scale: Any) -> Value:
    """Return the softmax of int16 as integers of 15 bits; ``below`` is less than or equal to zero."""
    one = np.float64(2 / 65535)
    exponential = jnp.asarray(interpolate(np.exp, (-10.0, 0.0), one, 0).astype(np.int32))
    reciprocal = jnp.asarray(interpolate(lambda x: 1 / (1 + x), (0.0, 1.0), one, 0).astype(np.int32))
    factor = make_fixed_point(np.float64(scale) / (10 / 65535))
    powers = exponential[jnp.clip(multiply(below, factor) + 32767, -32768, 32767) + 32768]
    total = jnp.sum(powers, -1, dtype=np.int32, keepdims=True)
    leading = lax.clz(total)
    shifted = ((total.astype(np.int64) << (leading - 1)) + (1 << 13)) >> 14
    inverse = reciprocal[jnp.clip(shifted - (1 << 15) - (1 << 16), -32768, 32767) + 32768].astype(np.int64)
    right = (31 - leading).astype(np.int64)
    return jnp.clip((powers * inverse + (1 << (right - 1))) >> right, 0, 32767).astype(np.int16)


@OPS.define("LOG_SOFTMAX")
def _log_softmax(_: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    step = tensors[0].step
    integers = jnp.asarray(x).astype(np.int32)
    most = jnp.max(integers, -1, keepdims=True)
    logarithm = jnp.log(jnp.sum(jnp.asarray(_tabulate_powers(step))[most - integers], -1, keepdims=True))
    offset = (step * most.astype(np.float32) + logarithm) / output.step
    return store(jnp.round((step / output.step) * integers.astype(np.float32) - offset), output)


@OPS.define("L2_NORMALIZATION")
def _normalise(_: Any, tensors: Sequence[Tensor], output: Tensor, x: Value) -> Value:
    centred = centre(x, tensors[0])
    inverse = invert_root(jnp.sum(jnp.square(centred), -1, dtype=np.int32, keepdims=True))
    if output.dtype == np.uint8:
        return store(multiply(centred << 7, inverse), output)
    return store(multiply(centred, FixedPoint(inverse.value, inverse.shift + 7)), output)


@OPS.define("RESIZE_BILINEAR")
def _resize_bilinear(options: Any, _: Any, output: Tensor, x: Value, sizes: Value) -> Value:
    narrow = output.dtype.itemsize == 1 and len(output.shape) == 4  # XNNPACK takes it.
    bits, result = (11, jnp.asarray(x).astype(np.int32)) if narrow else (10, jnp.asarray(x).astype(np.int64))
    for axis, count in zip((1, 2), read_ints(sizes), strict=True):
        find = _find_near_sources if narrow else _find_sources
        first, second, weight = find(np.shape(x)[axis], count, options)
        weight = weight.astype(result.dtype).reshape([-1 if d == axis else 1 for d in range(4)])
        lower, upper = jnp.take(result, first, axis), jnp.take(result, second, axis)
        result = (lower << bits) + (upper - lower) * weight
    half = 1 << (2 * bits - 1)
    return ((result + half - (0 if narrow else result <= 0)) >> (2 * bits)).astype(output.dtype)


def _find_near_sources(size: int, count: int, options: Any) -> tuple[Any, Any, Any]:
    """Return two sources of each element of a resized axis and 2^11 × the weight of the second, as XNNPACK does."""
    aligned = int(options.alignCorners and count != 1)
    scale = np.float32(size - aligned) / np.float32(count - aligned)
    places = np.arange(count).astype(np.float32) * scale
    if options.halfPixelCenters:
        places = np.maximum(places + (np.float32(0.5) * scale - np.float32(0.5)), np.float32(0))
    places = np.minimum(places, np.float32(size - 1))
    first = places.astype(np.int32)
    return first, np.minimum(first + 1, size - 1), np.rint((places - first.astype(np.float32)) * np.float32(2**11))


def _find_sources(size: int, count: int, options: Any) -> tuple[Any, Any, Any]:
    """Return two sources of each element of a resized axis and 2^10 × the weight of the second, as LiteRT does."""
    aligned = int(options.alignCorners and count > 1)
    scale = (1024 * (size - aligned) + (count - aligned) // 2) // (count - aligned)
    places = np.arange(count) * scale + (scale // 2 - 512 if options.halfPixelCenters else 0)
    first = np.maximum(np.fix(places / 1024).astype(np.int64), 0)
    return first, np.minimum(np.maximum(-(-places // 1024), 0), size - 1), places - 1024 * first
