"""Ops that meet special values: how each is called, and what is ordinary for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import keras
import numpy as np
import tensorflow as tf

Array = np.ndarray[Any, Any]
Tensor = Any
Kind = Literal["floats", "loops", "casts", "ids", "integers"]
"""The special values of an op: NaN, infinities and -0.0; those and numbers beyond the type that is cast to; ids out of
range; the ends of integer types. Loops are apart, as a graph that has some is compiled another way."""
KINDS: Sequence[Kind] = get_args(Kind)


@dataclass(frozen=True)
class Probe:
    """An op under its ``name``. Special values go into its only feed, which is ``usual`` otherwise.

    ``rows``: how many an id may address, for ``ids``.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    usual: Array
    kind: Kind
    rows: int = 0


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


PLANE = (4, 6)
TABLE = normal(7, 3, seed=1)
BOXES = np.random.default_rng(3).uniform(size=(4, 4)).astype(np.float32)
SEGMENTS = np.array([0, 0, 1, 2])


def _reversed(function: Callable[[Tensor, Tensor], Tensor], by: int = 1) -> Callable[[Tensor], Tensor]:
    """A function of two arguments, of which the second is the first with its columns in another order."""
    return lambda x: function(x, tf.roll(x, by, 1))


ELEMENTWISE: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "leaky_relu": tf.nn.leaky_relu,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "swish": tf.nn.silu,
    "gelu": partial(tf.nn.gelu, approximate=False),
    "gelu (tanh)": partial(tf.nn.gelu, approximate=True),
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3.0) / 6.0,
    "hard_sigmoid (Keras 2)": lambda x: tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0),
    "hard_sigmoid (Keras 3)": lambda x: tf.nn.relu6(x + 3.0) / 6.0,
    "sigmoid": tf.sigmoid,
    "log_sigmoid": tf.math.log_sigmoid,
    "tanh": tf.tanh,
    "exp": tf.exp,
    "expm1": tf.math.expm1,
    "log": tf.math.log,
    "log1p": tf.math.log1p,
    "sqrt": tf.sqrt,
    "rsqrt": tf.math.rsqrt,
    "reciprocal": tf.math.reciprocal,
    "square": tf.square,
    "abs": tf.abs,
    "negative": tf.negative,
    "sign": tf.sign,
    "round": tf.round,
    "rint": tf.math.rint,
    "floor": tf.floor,
    "ceil": tf.math.ceil,
    "sin": tf.sin,
    "cos": tf.cos,
    "tan": tf.tan,
    "asin": tf.asin,
    "atan": tf.atan,
    "sinh": tf.sinh,
    "asinh": tf.asinh,
    "erf": tf.math.erf,
    "erfc": tf.math.erfc,
    "ndtri": lambda x: tf.math.ndtri(tf.abs(x) * 1e-8),
    "lgamma": tf.math.lgamma,
    "digamma": tf.math.digamma,
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.5),
    "is_nan": tf.math.is_nan,
    "is_inf": tf.math.is_inf,
    "is_finite": tf.math.is_finite,
    "where(is_nan)": lambda x: tf.where(tf.math.is_nan(x), tf.zeros_like(x) - 3.0, x),
    "where(x == x)": lambda x: tf.where(tf.equal(x, x), x, tf.zeros_like(x) - 3.0),
    "where(x > 0)": lambda x: tf.where(x > 0.0, x, -x),
    "multiply_no_nan": lambda x: tf.math.multiply_no_nan(x, tf.zeros_like(x)),
    "divide_no_nan": lambda x: tf.math.divide_no_nan(tf.ones_like(x), x),
}

TWO: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": tf.add,
    "subtract": tf.subtract,
    "multiply": tf.multiply,
    "divide": tf.divide,
    "pow": tf.pow,
    "floormod": tf.math.floormod,
    "floordiv": tf.math.floordiv,
    "truncatemod": lambda x, y: tf.raw_ops.Mod(x=x, y=y),
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "atan2": tf.atan2,
    "equal": tf.equal,
    "not_equal": tf.not_equal,
    "less": tf.less,
    "less_equal": tf.less_equal,
    "greater": tf.greater,
    "squared_difference": tf.math.squared_difference,
}

EDGES = [-1.0, -0.25, 0.0, 0.5, 1.5]

REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "reduce_max": partial(tf.reduce_max, axis=1),
    "reduce_min": partial(tf.reduce_min, axis=1),
    "reduce_max (all)": tf.reduce_max,
    "reduce_sum": partial(tf.reduce_sum, axis=1),
    "reduce_mean": partial(tf.reduce_mean, axis=0),
    "reduce_prod": partial(tf.reduce_prod, axis=1),
    "reduce_logsumexp": partial(tf.reduce_logsumexp, axis=1),
    "reduce_std": partial(tf.math.reduce_std, axis=1),
    "l2_normalize": partial(tf.math.l2_normalize, axis=1),
    "cumsum": partial(tf.cumsum, axis=1),
    "cumprod": partial(tf.math.cumprod, axis=1),
    "segment_max": lambda x: tf.math.segment_max(x, SEGMENTS),
    "segment_min": lambda x: tf.math.segment_min(x, SEGMENTS),
    "segment_sum": lambda x: tf.math.segment_sum(x, SEGMENTS),
    "unsorted_segment_max": lambda x: tf.math.unsorted_segment_max(x, SEGMENTS, 3),
    "unsorted_segment_min": lambda x: tf.math.unsorted_segment_min(x, SEGMENTS, 3),
    "argmax": partial(tf.argmax, axis=1),
    "argmin": partial(tf.argmin, axis=1),
    "top_k values": lambda x: tf.math.top_k(x, 3).values,
    "top_k indices": lambda x: tf.math.top_k(x, 3).indices,
    "sort": lambda x: tf.sort(x),
    "sort (descending)": lambda x: tf.sort(x, direction="DESCENDING"),
    "argsort": lambda x: tf.argsort(x, stable=True),
    "argsort (descending)": lambda x: tf.argsort(x, direction="DESCENDING", stable=True),
    "in_top_k": lambda x: tf.math.in_top_k(np.array([0, 2, 1, 3]), x, 2),
    "nth_element": lambda x: tf.raw_ops.NthElement(input=x, n=1),
    "bucketize": lambda x: tf.raw_ops.Bucketize(input=x, boundaries=EDGES),
    "Discretization": lambda x: tf.keras.layers.Discretization(EDGES)(x),
    "searchsorted (left)": lambda x: tf.searchsorted(tf.constant(EDGES), tf.reshape(x, [-1])),
    "searchsorted (right)": lambda x: tf.searchsorted(tf.constant(EDGES), tf.reshape(x, [-1]), side="right"),
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "softmax (axis 0)": partial(tf.nn.softmax, axis=0),
    "layer_norm": lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [1], keepdims=True), 0.1, 1.2, 1e-3),
    "batch_norm": lambda x: (x - 0.3) * tf.math.rsqrt(tf.constant([0.5, 1.0, 2.0, 3.0, 0.1, 1e-3]) + 1e-3) + 0.1,
    "gather of it": lambda x: tf.gather(x, [2, 0], axis=1),
    "transpose": tf.transpose,
    "concat": lambda x: tf.concat([x, x * 2.0], 1),
    "reverse": lambda x: tf.reverse(x, [1]),
    "non_max_suppression (scores)": lambda x: (
        tf.raw_ops.NonMaxSuppressionV4(
            boxes=tf.constant(BOXES),
            scores=x[:, 0],
            max_output_size=4,
            iou_threshold=0.5,
            score_threshold=-10.0,
            pad_to_max_output_size=True,
        ).selected_indices
    ),
}

W = {size: tf.constant(normal(*size, seed=number)) for number, size in enumerate([(6, 8), (3, 3, 4, 8), (3, 3, 4, 1)])}


def _conv(x: Tensor) -> Tensor:
    return tf.nn.conv2d(x, W[3, 3, 4, 8], 1, "SAME")


def _recurrent(kind: Any) -> Callable[[Tensor], Tensor]:
    """Return a layer of Keras whose weights are there before a graph is traced."""
    weights = keras.initializers.GlorotUniform(seed=1)
    layer = kind(4, kernel_initializer=weights, recurrent_initializer=weights)
    layer.build((1, 8, 4))
    return lambda x: layer(x)


LAYERS: Mapping[str, tuple[Callable[[Tensor], Tensor], Sequence[int]]] = {
    "dense": (lambda x: tf.matmul(x, W[6, 8]), PLANE),
    "dense + relu": (lambda x: tf.nn.relu(tf.matmul(x, W[6, 8]) + 0.1), PLANE),
    "dense + sigmoid": (lambda x: tf.sigmoid(tf.matmul(x, W[6, 8]) + 0.1), PLANE),
    "dense + gelu": (lambda x: tf.nn.gelu(tf.matmul(x, W[6, 8]) + 0.1, approximate=True), PLANE),
    "dense + gelu (erf)": (lambda x: tf.nn.gelu(tf.matmul(x, W[6, 8]) + 0.1), PLANE),
    "conv2d": (_conv, (1, 8, 8, 4)),
    "conv2d + relu": (lambda x: tf.nn.relu(_conv(x) + 0.1), (1, 8, 8, 4)),
    "conv2d + relu6": (lambda x: tf.nn.relu6(_conv(x) + 0.1), (1, 8, 8, 4)),
    "conv2d + leaky_relu": (lambda x: tf.nn.leaky_relu(_conv(x) + 0.1), (1, 8, 8, 4)),
    "conv2d + swish": (lambda x: tf.nn.silu(_conv(x) + 0.1), (1, 8, 8, 4)),
    "conv2d + relu + max_pool": (
        lambda x: tf.nn.max_pool2d(tf.nn.relu(_conv(x) + 0.1), 2, 2, "VALID"),
        (1, 8, 8, 4),
    ),
    "depthwise_conv2d + relu6": (
        lambda x: tf.nn.relu6(tf.nn.depthwise_conv2d(x, W[3, 3, 4, 1], (1, 1, 1, 1), "SAME")),
        (1, 8, 8, 4),
    ),
    "max_pool1d": (lambda x: tf.nn.max_pool1d(x, 2, 2, "VALID"), (1, 8, 4)),
    "avg_pool1d": (lambda x: tf.nn.avg_pool1d(x, 2, 2, "VALID"), (1, 8, 4)),
    "max_pool2d": (lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), (1, 8, 8, 4)),
    "max_pool2d (3, same)": (lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), (1, 8, 8, 4)),
    "max_pool3d": (lambda x: tf.nn.max_pool3d(x[..., None], 2, 2, "VALID"), (1, 4, 4, 4)),
    "avg_pool2d": (lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), (1, 8, 8, 4)),
    "GlobalMaxPooling1D": (lambda x: tf.reduce_max(x, 1), (1, 8, 4)),
    "GlobalMaxPooling2D": (lambda x: tf.reduce_max(x, [1, 2]), (1, 8, 8, 4)),
    "GlobalAveragePooling2D": (lambda x: tf.reduce_mean(x, [1, 2]), (1, 8, 8, 4)),
    "resize (bilinear)": (lambda x: tf.image.resize(x, (12, 12)), (1, 8, 8, 4)),
    "resize (bicubic)": (lambda x: tf.image.resize(x, (12, 12), "bicubic"), (1, 8, 8, 4)),
    "resize (area)": (lambda x: tf.image.resize(x, (12, 12), "area"), (1, 8, 8, 4)),
    "resize (nearest)": (lambda x: tf.image.resize(x, (12, 12), "nearest"), (1, 8, 8, 4)),
    "resize (lanczos3)": (lambda x: tf.image.resize(x, (12, 12), "lanczos3"), (1, 8, 8, 4)),
    "crop_and_resize (image)": (
        lambda x: tf.image.crop_and_resize(x, [[0.1, 0.1, 0.7, 0.9]], [0], [5, 5]),
        (1, 8, 8, 4),
    ),
    "dilation2d": (
        lambda x: tf.nn.dilation2d(x, W[3, 3, 4, 1][..., 0], (1, 1, 1, 1), "SAME", "NHWC", (1, 1, 1, 1)),
        (1, 8, 8, 4),
    ),
    "local_response_normalization": (tf.nn.local_response_normalization, (1, 8, 8, 4)),
    "attention": (lambda x: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x), (1, 8, 4)),
}

NARROW = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


def _ids() -> Iterator[Probe]:
    table, ids = tf.constant(TABLE), np.array([1, 0, 6], np.int32)
    rows = len(TABLE)
    calls: Mapping[str, Callable[[Tensor], Tensor]] = {
        "gather": lambda i: tf.gather(table, i),
        "embedding_lookup": lambda i: tf.nn.embedding_lookup(table, i),
        "gather_nd": lambda i: tf.gather_nd(table, i[:, None]),
        "gather (batch_dims)": lambda i: tf.gather(tf.transpose(table), i, batch_dims=1),
        "crop_and_resize (box)": lambda i: tf.image.crop_and_resize(
            tf.reshape(table, [rows, 3, 1, 1]), np.tile([0.0, 0.0, 1.0, 1.0], [3, 1]), i, [2, 1]
        ),
        "one_hot": lambda i: tf.one_hot(i, rows),
        "table[i]": lambda i: table[i[0]],
        "slice": lambda i: tf.slice(table, [i[0], 0], [1, 3]),
        "scatter_nd": lambda i: tf.scatter_nd(i[:, None], table[:3], [rows, 3]),
        "tensor_scatter_nd_update": lambda i: tf.tensor_scatter_nd_update(table, i[:, None], table[:3]),
        "tensor_scatter_nd_add": lambda i: tf.tensor_scatter_nd_add(table, i[:, None], table[:3]),
        "unsorted_segment_sum": lambda i: tf.math.unsorted_segment_sum(table[:3], i, rows),
        "bincount": lambda i: tf.math.bincount(i, minlength=rows, maxlength=rows),
        "unravel_index": lambda i: tf.unravel_index(i, [rows, 1]),
        "reverse_sequence": lambda i: tf.reverse_sequence(table[:3, :, None] + tf.zeros([3, 3, 6]), i, seq_axis=2),
        "sequence_mask": lambda i: tf.sequence_mask(i, rows),
        "range_mask": lambda i: tf.range(rows)[None] < i[:, None],
    }
    for name, call in calls.items():
        yield Probe(name, call, ids, "ids", rows)


def _integers() -> Iterator[Probe]:
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        usual = np.array([[5, 3, 7, 2], [9, 1, 4, 6]], dtype)
        divisor = 3 if dtype.startswith("u") else -1
        calls: dict[str, Callable[[Tensor], Tensor]] = {
            "add": lambda x: x + x,
            "multiply": lambda x: x * tf.roll(x, 1, 1),
            "reduce_sum": lambda x: tf.reduce_sum(x, 1),
            "reduce_max": lambda x: tf.reduce_max(x, 1),
            "maximum": lambda x: tf.maximum(x, tf.roll(x, 1, 1)),
            "floordiv by zero": lambda x: x // (x - x),
            "floordiv": lambda x, by=divisor: x // tf.constant(by, x.dtype),
            "floormod": lambda x, by=divisor: x % tf.constant(by, x.dtype),
            "argmax": lambda x: tf.argmax(x, 1),
            "sort": lambda x: tf.sort(x),
            "less": lambda x: x < tf.roll(x, 1, 1),
            "cast to float32": lambda x: tf.cast(x, tf.float32),
            "cast to int8": lambda x: tf.cast(x, tf.int8),
            "cast to int32": lambda x: tf.cast(x, tf.int32),
        }
        if not dtype.startswith("u"):
            calls |= {"abs(x * x)": lambda x: tf.abs(x * x), "abs": tf.abs, "negative": tf.negative, "sign": tf.sign}
        for name, call in calls.items():
            yield Probe(f"{name}, {dtype}", call, usual, "integers")


def probes() -> Iterator[Probe]:
    """Every op, in the order of the table."""
    for name, call in ELEMENTWISE.items():
        yield Probe(name, call, normal(*PLANE), "floats")
    for name, two in TWO.items():
        yield Probe(name, _reversed(two), normal(*PLANE), "floats")
    for name, call in REDUCTIONS.items():
        yield Probe(name, call, normal(*PLANE), "floats")
    for name, (call, shape) in LAYERS.items():
        yield Probe(name, call, normal(*shape), "floats")
    for layer in (keras.layers.LSTM, keras.layers.GRU):
        yield Probe(layer.__name__, _recurrent(layer), normal(1, 8, 4), "loops")
    for dtype in (*NARROW, "bool"):
        yield Probe(f"cast to {dtype}", partial(tf.cast, dtype=dtype), abs(normal(*PLANE)), "casts")
    yield from _ids()
    yield from _integers()
