"""What each operator of LiteRT computes, on real numbers with channels last."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from jax import lax

from builder.importers.frameworks.graph_values import list_axes, read_array, read_int, read_ints

Value = Any
OPERATORS: dict[str, Callable[..., Any]] = {}

_FUSED = schema.ActivationFunctionType
ACTIVATION_BOUNDS: dict[int, tuple[float | None, float | None]] = {
    _FUSED.NONE: (None, None), _FUSED.RELU: (0.0, None), _FUSED.RELU_N1_TO_1: (-1.0, 1.0), _FUSED.RELU6: (0.0, 6.0),
}  # fmt: skip
"""The bounds of the activations that other operators contain, by their number in the file."""


def _define(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return enter


def _activate(x: Value, options: Any) -> Value:
    number = getattr(options, "fusedActivationFunction", _FUSED.NONE)
    if number == _FUSED.TANH:
        return jnp.tanh(x)
    low, high = ACTIVATION_BOUNDS[number]
    return x if low is None and high is None else jnp.clip(x, low, high)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "ABS": jnp.abs, "CEIL": jnp.ceil, "COMPLEX_ABS": jnp.abs, "COS": jnp.cos, "ELU": jax.nn.elu, "EXP": jnp.exp,
    "FLOOR": jnp.floor, "IMAG": jnp.imag, "LOG": jnp.log, "LOGICAL_NOT": jnp.logical_not, "LOGISTIC": jax.nn.sigmoid,
    "NEG": jnp.negative, "REAL": jnp.real, "RELU": jax.nn.relu, "RELU6": jax.nn.relu6, "ROUND": jnp.round,
    "RELU_0_TO_1": lambda x: jnp.clip(x, 0, 1), "RELU_N1_TO_1": lambda x: jnp.clip(x, -1, 1), "RSQRT": lax.rsqrt,
    "SIGN": jnp.sign, "SIN": jnp.sin, "SQRT": jnp.sqrt, "SQUARE": jnp.square, "TANH": jnp.tanh,
    "ZEROS_LIKE": jnp.zeros_like, "DEQUANTIZE": lambda x: x, "QUANTIZE": lambda x: x, "DENSIFY": lambda x: x,
    "LOG_SOFTMAX": jax.nn.log_softmax, "HARD_SWISH": lambda x: x * jnp.clip(x + 3, 0, 6) / 6,
    "SHAPE": lambda x: np.asarray(np.shape(x), np.int64), "RANK": lambda x: np.asarray(np.ndim(x), np.int32),
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": jnp.add, "ATAN2": jnp.arctan2, "BITWISE_XOR": jnp.bitwise_xor, "EQUAL": jnp.equal,
    "FLOOR_DIV": jnp.floor_divide, "FLOOR_MOD": jnp.mod, "GREATER": jnp.greater, "GREATER_EQUAL": jnp.greater_equal,
    "LESS": jnp.less, "LESS_EQUAL": jnp.less_equal, "LOGICAL_AND": jnp.logical_and, "LOGICAL_OR": jnp.logical_or,
    "MAXIMUM": jnp.maximum, "MINIMUM": jnp.minimum, "MUL": jnp.multiply, "NOT_EQUAL": jnp.not_equal, "POW": jnp.power,
    "RIGHT_SHIFT": jnp.right_shift, "SQUARED_DIFFERENCE": lambda a, b: jnp.square(a - b), "SUB": jnp.subtract,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "MEAN": jnp.mean, "REDUCE_ALL": jnp.all, "REDUCE_ANY": jnp.any, "REDUCE_MAX": jnp.max, "REDUCE_MIN": jnp.min,
    "REDUCE_PROD": jnp.prod, "SUM": jnp.sum,
}  # fmt: skip


def _apply_unary(function: Callable[[Any], Any], _: Any, x: Value) -> Value:
    return function(x)


def _apply_binary(function: Callable[[Any, Any], Any], options: Any, a: Value, b: Value) -> Value:
    return _activate(function(a, b), options)


def _reduce(function: Callable[..., Any], options: Any, x: Value, axes: Value) -> Value:
    chosen = list_axes(axes, np.ndim(x)) or None
    result = function(x, chosen, keepdims=bool(options.keepDims))
    return result.astype(np.asarray(x).dtype if is_numpy(x) else x.dtype)


def is_numpy(x: Value) -> bool:
    """Say whether ``x`` is an array of NumPy."""
    return isinstance(x, (np.ndarray, np.generic))


for _name, _unary in _UNARY.items():
    OPERATORS[_name] = functools.partial(_apply_unary, _unary)
for _name, _binary in _BINARY.items():
    OPERATORS[_name] = functools.partial(_apply_binary, _binary)
for _name, _reduction in _REDUCTIONS.items():
    OPERATORS[_name] = functools.partial(_reduce, _reduction)


@_define("DIV")
def _divide(options: Any, a: Value, b: Value) -> Value:
    quotient = jnp.divide(a, b) if jnp.issubdtype(a.dtype, jnp.floating) else lax.div(*jnp.broadcast_arrays(a, b))
    return _activate(quotient, options)


@_define("ADD_N")
def _add_all(_: Any, *inputs: Value) -> Value:
    return functools.reduce(jnp.add, inputs)


@_define("GELU")
def _gelu(options: Any, x: Value) -> Value:
    return jax.nn.gelu(x, approximate=bool(options.approximate))


@_define("LEAKY_RELU")
def _leaky_relu(options: Any, x: Value) -> Value:
    return jnp.where(x >= 0, x, np.float32(options.alpha) * x)


@_define("PRELU")
def _parametric_relu(_: Any, x: Value, slope: Value) -> Value:
    return jnp.where(x >= 0, x, slope * x)


@_define("SOFTMAX")
def _softmax(options: Any, x: Value) -> Value:
    return jax.nn.softmax(x if options.beta == 1 else x * np.float32(options.beta), -1)


@_define("CAST")
def _cast(_: Any, x: Value) -> Value:
    return x  # The runner gives it the type of its output.


@_define("SELECT", "SELECT_V2")
def _select(_: Any, condition: Value, a: Value, b: Value) -> Value:
    if np.ndim(condition) == 1 and np.ndim(a) > 1 and np.shape(condition)[0] == np.shape(a)[0] != np.shape(a)[-1]:
        condition = jnp.reshape(condition, (-1,) + (1,) * (np.ndim(a) - 1))
    return jnp.where(condition, a, b)


def _name_padding(options: Any) -> str:
    return "SAME" if options.padding == schema.Padding.SAME else "VALID"


def convolve(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of ``x`` [n, h, w, c] with ``kernel`` [o, h, w, c / groups]."""
    return lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.transpose(kernel, (1, 2, 3, 0)),
        (options.strideH, options.strideW),
        _name_padding(options),
        rhs_dilation=(options.dilationHFactor, options.dilationWFactor),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=np.shape(x)[-1] // np.shape(kernel)[-1],
    )


def convolve_depthwise(options: Any, x: Value, kernel: Value) -> Value:
    """Return the convolution of each channel of ``x`` [n, h, w, c] with its part of ``kernel`` [1, h, w, c × m]."""
    _, rows, columns, outputs = np.shape(kernel)
    return lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.reshape(kernel, (rows, columns, 1, outputs)),
        (options.strideH, options.strideW),
        _name_padding(options),
        rhs_dilation=(options.dilationHFactor, options.dilationWFactor),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=np.shape(x)[-1],
    )


def _add_bias(total: Value, bias: Value, options: Any) -> Value:
    return _activate(total if bias is None else total + bias, options)


@_define("CONV_2D")
def _convolution(options: Any, x: Value, kernel: Value, bias: Value = None) -> Value:
    return _add_bias(convolve(options, x, kernel), bias, options)


@_define("DEPTHWISE_CONV_2D")
def _depthwise_convolution(options: Any, x: Value, kernel: Value, bias: Value = None) -> Value:
    return _add_bias(convolve_depthwise(options, x, kernel), bias, options)


@_define("TRANSPOSE_CONV")
def _transposed_convolution(options: Any, shape: Value, kernel: Value, x: Value, bias: Value = None) -> Value:
    _, *sizes, _ = read_ints(shape)
    strides, extents = (options.strideH, options.strideW), np.shape(kernel)[1:3]
    pads = []
    for size, count, stride, extent in zip(sizes, np.shape(x)[1:3], strides, extents, strict=True):
        whole = (count - 1) * stride + extent
        before = max(whole - size, 0) // 2 if _name_padding(options) == "SAME" else 0
        pads.append((extent - 1 - before, size - whole + extent - 1 + before))
    flipped = jnp.transpose(kernel, (1, 2, 3, 0))[::-1, ::-1]
    total = lax.conv_general_dilated(
        jnp.asarray(x), flipped, (1, 1), pads, lhs_dilation=strides, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return _add_bias(total, bias, options)


@_define("CONV_3D")
def _convolution_3d(options: Any, x: Value, kernel: Value, bias: Value = None) -> Value:
    total = lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.asarray(kernel),
        (options.strideD, options.strideH, options.strideW),
        _name_padding(options),
        rhs_dilation=(options.dilationDFactor, options.dilationHFactor, options.dilationWFactor),
        dimension_numbers=("NDHWC", "DHWIO", "NDHWC"),
    )
    return _add_bias(total, bias, options)


def flatten_rows(options: Any, x: Value, kernel: Value) -> Value:
    """Return ``x`` as rows of the length of those of ``kernel``, unless its dimensions are kept."""
    return jnp.asarray(x) if options.keepNumDims else jnp.reshape(x, (-1, np.shape(kernel)[1]))


@_define("FULLY_CONNECTED")
def _fully_connected(options: Any, x: Value, kernel: Value, bias: Value = None) -> Value:
    return _add_bias(jnp.matmul(flatten_rows(options, x, kernel), jnp.transpose(kernel)), bias, options)


@_define("BATCH_MATMUL")
def _multiply_batches(options: Any, a: Value, b: Value) -> Value:
    return jnp.matmul(jnp.swapaxes(a, -1, -2) if options.adjX else a, jnp.swapaxes(b, -1, -2) if options.adjY else b)


def _pool(options: Any, x: Value, start: float, function: Any) -> Value:
    window = (1, options.filterHeight, options.filterWidth, 1)
    strides = (1, options.strideH, options.strideW, 1)
    return lax.reduce_window(jnp.asarray(x), np.float32(start), function, window, strides, _name_padding(options))


@_define("MAX_POOL_2D")
def _max_pool(options: Any, x: Value) -> Value:
    return _activate(_pool(options, x, -np.inf, lax.max), options)


@_define("AVERAGE_POOL_2D")
def _average_pool(options: Any, x: Value) -> Value:
    counts = _pool(options, np.ones((1, *np.shape(x)[1:3], 1), np.float32), 0, lax.add)
    return _activate(_pool(options, x, 0, lax.add) / counts, options)


@_define("L2_POOL_2D")
def _norm_pool(options: Any, x: Value) -> Value:
    counts = _pool(options, np.ones((1, *np.shape(x)[1:3], 1), np.float32), 0, lax.add)
    return _activate(jnp.sqrt(_pool(options, jnp.square(x), 0, lax.add) / counts), options)


@_define("L2_NORMALIZATION")
def _l2_normalise(options: Any, x: Value) -> Value:
    norm = jnp.sqrt(jnp.sum(jnp.square(x), -1, keepdims=True))
    return _activate(x / jnp.maximum(norm, np.float32(1e-6)), options)


@_define("LOCAL_RESPONSE_NORMALIZATION")
def _normalise_locally(options: Any, x: Value) -> Value:
    size = 2 * options.radius + 1
    pads = [(0, 0)] * (np.ndim(x) - 1) + [(options.radius, options.radius)]
    squares = lax.reduce_window(
        jnp.square(x), np.float32(0), lax.add, (1,) * (np.ndim(x) - 1) + (size,), (1,) * np.ndim(x), pads
    )
    return x * jnp.power(np.float32(options.bias) + np.float32(options.alpha) * squares, np.float32(-options.beta))


@_define("RESHAPE")
def _reshape(options: Any, x: Value, shape: Value = None) -> Value:
    return jnp.reshape(x, read_ints(shape if shape is not None else np.asarray(options.newShape)))


@_define("SQUEEZE")
def _squeeze(options: Any, x: Value) -> Value:
    axes = options.squeezeDims if options.squeezeDims is not None else ()
    return jnp.squeeze(x, list_axes(np.asarray(axes, np.int64), np.ndim(x)) or None)


@_define("EXPAND_DIMS")
def _expand_dims(_: Any, x: Value, axis: Value) -> Value:
    return jnp.expand_dims(x, read_int(axis))


@_define("TRANSPOSE")
def _transpose(_: Any, x: Value, order: Value) -> Value:
    return jnp.transpose(x, read_ints(order))


@_define("CONCATENATION")
def _concatenate(options: Any, *inputs: Value) -> Value:
    return _activate(jnp.concatenate(inputs, options.axis), options)


@_define("PACK")
def _pack(options: Any, *inputs: Value) -> Value:
    return jnp.stack(inputs, options.axis)


@_define("UNPACK")
def _unpack(options: Any, x: Value) -> list[Value]:
    return [jnp.squeeze(part, options.axis) for part in jnp.split(x, options.num, options.axis)]


@_define("SPLIT")
def _split(options: Any, axis: Value, x: Value) -> list[Value]:
    return list(jnp.split(x, options.numSplits, read_int(axis)))


@_define("SPLIT_V")
def _split_by_sizes(_: Any, x: Value, sizes: Value, axis: Value) -> list[Value]:
    where, counts = read_int(axis), read_ints(sizes)
    rest = np.shape(x)[where] - sum(count for count in counts if count >= 0)
    return list(jnp.split(x, np.cumsum([rest if count < 0 else count for count in counts])[:-1], where))


@_define("SLICE")
def _slice(_: Any, x: Value, begin: Value, size: Value) -> Value:
    sizes = [n if count < 0 else count for n, count in zip(np.shape(x), read_ints(size), strict=True)]
    if isinstance(begin, jax.core.Tracer):
        return lax.dynamic_slice(jnp.asarray(x), list(begin), sizes)
    starts = read_ints(begin)
    ends = [n if count < 0 else b + count for n, b, count in zip(np.shape(x), starts, read_ints(size), strict=True)]
    return jnp.asarray(x)[tuple(map(slice, starts, ends))]


@_define("STRIDED_SLICE")
def _slice_with_strides(options: Any, x: Value, begin: Value, end: Value, strides: Value) -> Value:
    index: list[Any] = []
    for i, (first, last, step) in enumerate(zip(*map(read_ints, (begin, end, strides)), strict=True)):
        bit = 1 << i
        if options.ellipsisMask & bit:
            index.append(Ellipsis)
        elif options.newAxisMask & bit:
            index.append(None)
        elif options.shrinkAxisMask & bit:
            index.append(first)
        else:
            start = None if options.beginMask & bit else first
            stop = None if options.endMask & bit else first + last if getattr(options, "offset", False) else last
            index.append(slice(start, stop, step))
    return jnp.asarray(x)[tuple(index)]


@_define("PAD", "PADV2")
def _pad(_: Any, x: Value, pads: Value, filler: Value = None) -> Value:
    widths = [(int(before), int(after), 0) for before, after in read_array(pads)]
    start = jnp.zeros((), x.dtype) if filler is None else jnp.asarray(filler).astype(x.dtype).reshape(())
    return lax.pad(jnp.asarray(x), start, widths)


@_define("MIRROR_PAD")
def _pad_with_mirror(options: Any, x: Value, pads: Value) -> Value:
    mode = "reflect" if options.mode == schema.MirrorPadMode.REFLECT else "symmetric"
    return jnp.pad(jnp.asarray(x), read_array(pads).tolist(), mode=mode)


@_define("TILE")
def _tile(_: Any, x: Value, repeats: Value) -> Value:
    return jnp.tile(x, read_ints(repeats))


@_define("FILL")
def _fill(_: Any, shape: Value, value: Value) -> Value:
    return jnp.full(read_ints(shape), value)


@_define("BROADCAST_TO")
def _broadcast(_: Any, x: Value, shape: Value) -> Value:
    return jnp.broadcast_to(x, read_ints(shape))


@_define("BROADCAST_ARGS")
def _broadcast_shapes(_: Any, a: Value, b: Value) -> Value:
    return np.asarray(np.broadcast_shapes(tuple(read_ints(a)), tuple(read_ints(b))), a.dtype)


@_define("RANGE")
def _range(_: Any, start: Value, limit: Value, delta: Value) -> Value:
    return np.arange(*(read_array(value).reshape(()) for value in (start, limit, delta)), dtype=start.dtype)


@_define("ONE_HOT")
def _one_hot(options: Any, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    axis = options.axis % (np.ndim(indices) + 1)
    places = jnp.arange(read_int(depth)).reshape([-1 if i == axis else 1 for i in range(np.ndim(indices) + 1)])
    return jnp.where(jnp.expand_dims(indices, axis) == places, on, off)


@_define("GATHER")
def _gather(options: Any, x: Value, indices: Value) -> Value:
    def pick(values: Value, where: Value, axis: int) -> Value:
        return jnp.take(values, where, axis, mode="clip")

    axis = options.axis % np.ndim(x)
    function = functools.partial(pick, axis=axis - options.batchDims)
    for _ in range(options.batchDims):
        function = jax.vmap(function)
    return function(jnp.asarray(x), jnp.asarray(indices))


@_define("GATHER_ND")
def _gather_nd(_: Any, x: Value, indices: Value) -> Value:
    return jnp.asarray(x).at[tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))].get(mode="clip")


@_define("EMBEDDING_LOOKUP")
def _look_up(_: Any, indices: Value, table: Value) -> Value:
    return jnp.take(table, indices, 0, mode="clip")


@_define("SCATTER_ND")
def _scatter_nd(_: Any, indices: Value, updates: Value, shape: Value) -> Value:
    where = tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))
    return jnp.zeros(read_ints(shape), updates.dtype).at[where].add(updates)


@_define("DYNAMIC_UPDATE_SLICE")
def _update_slice(_: Any, x: Value, update: Value, start: Value) -> Value:
    return lax.dynamic_update_slice(jnp.asarray(x), jnp.asarray(update), list(start))


@_define("ARG_MAX")
def _find_largest(_: Any, x: Value, axis: Value) -> Value:
    return jnp.argmax(x, read_int(axis))


@_define("ARG_MIN")
def _find_smallest(_: Any, x: Value, axis: Value) -> Value:
    return jnp.argmin(x, read_int(axis))


@_define("TOPK_V2")
def _find_top(_: Any, x: Value, k: Value) -> Any:
    return tuple(lax.top_k(jnp.asarray(x), read_int(k)))


@_define("CUMSUM")
def _add_up(options: Any, x: Value, axis: Value) -> Value:
    where = read_int(axis)
    values = jnp.flip(x, where) if options.reverse else jnp.asarray(x)
    result = jnp.cumsum(values, where, dtype=values.dtype)
    result = result - values if options.exclusive else result
    return jnp.flip(result, where) if options.reverse else result


@_define("REVERSE_V2")
def _reverse(_: Any, x: Value, axes: Value) -> Value:
    return jnp.flip(x, list_axes(axes, np.ndim(x)))


@_define("DEPTH_TO_SPACE")
def _move_depth_to_space(options: Any, x: Value) -> Value:
    n, h, w, c = np.shape(x)
    b = options.blockSize
    return jnp.reshape(x, (n, h, w, b, b, c // b**2)).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, c // b**2)


@_define("SPACE_TO_DEPTH")
def _move_space_to_depth(options: Any, x: Value) -> Value:
    n, h, w, c = np.shape(x)
    b = options.blockSize
    return jnp.reshape(x, (n, h // b, b, w // b, b, c)).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, c * b**2)


@_define("SPACE_TO_BATCH_ND")
def _move_space_to_batch(_: Any, x: Value, block: Value, pads: Value) -> Value:
    sizes, spatial = read_ints(block), len(read_ints(block))
    padded = jnp.pad(x, [(0, 0), *read_array(pads).tolist(), *[(0, 0)] * (np.ndim(x) - 1 - spatial)])
    n, rest = padded.shape[0], padded.shape[1 + spatial :]
    parts = [part for size, b in zip(padded.shape[1:], sizes, strict=False) for part in (size // b, b)]
    order = [
        *range(2, 2 * spatial + 1, 2),
        0,
        *range(1, 2 * spatial, 2),
        *range(2 * spatial + 1, 2 * spatial + 1 + len(rest)),
    ]
    return padded.reshape(n, *parts, *rest).transpose(order).reshape(n * int(np.prod(sizes)), *parts[::2], *rest)


@_define("BATCH_TO_SPACE_ND")
def _move_batch_to_space(_: Any, x: Value, block: Value, crops: Value) -> Value:
    sizes, spatial = read_ints(block), len(read_ints(block))
    n, rest = np.shape(x)[0] // int(np.prod(sizes)), np.shape(x)[1 + spatial :]
    parts = jnp.reshape(x, (*sizes, n, *np.shape(x)[1:]))
    order = [spatial, *(i for d in range(spatial) for i in (spatial + 1 + d, d)), *range(2 * spatial + 1, parts.ndim)]
    whole = [size * b for size, b in zip(np.shape(x)[1:], sizes, strict=False)]
    joined = parts.transpose(order).reshape(n, *whole, *rest)
    cuts = [slice(int(a), size - int(b)) for size, (a, b) in zip(whole, read_array(crops), strict=True)]
    return joined[(slice(None), *cuts)]


def _find_sources(size: int, count: int, options: Any) -> Any:
    """Return the place in an image of ``size`` of each of the ``count`` elements of the resized one."""
    scale = (size - 1) / (count - 1) if options.alignCorners and count > 1 else size / count
    numbers = np.arange(count, dtype=np.float32)
    return (numbers + 0.5) * scale - 0.5 if options.halfPixelCenters else numbers * scale


@_define("RESIZE_BILINEAR")
def _resize_bilinear(options: Any, x: Value, sizes: Value) -> Value:
    result = jnp.asarray(x)
    for axis, count in zip((1, 2), read_ints(sizes), strict=True):
        size = np.shape(x)[axis]
        places = np.clip(_find_sources(size, count, options), 0, None)
        first = np.minimum(np.floor(places), size - 1).astype(int)
        second = np.minimum(first + 1, size - 1)
        weight = (places - first).astype(np.float32).reshape([-1 if d == axis else 1 for d in range(4)])
        lower, upper = jnp.take(result, first, axis), jnp.take(result, second, axis)
        result = lower * (1 - weight) + upper * weight
    return result


@_define("RESIZE_NEAREST_NEIGHBOR")
def _resize_nearest(options: Any, x: Value, sizes: Value) -> Value:
    result = jnp.asarray(x)
    for axis, count in zip((1, 2), read_ints(sizes), strict=True):
        size = np.shape(x)[axis]
        scale = (size - 1) / (count - 1) if options.alignCorners and count > 1 else size / count
        places = (np.arange(count) + (0.5 if options.halfPixelCenters else 0.0)) * scale
        places = np.floor(places + 0.5) if options.alignCorners else np.floor(places)
        result = jnp.take(result, np.clip(places, 0, size - 1).astype(int), axis)
    return result
