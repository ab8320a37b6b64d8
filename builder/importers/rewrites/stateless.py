"""Random numbers of a seed that the graph is given: XLA makes other floats of a generator's bits than TensorFlow does.

The bits are the same in both. What TensorFlow makes of them: tensorflow/core/lib/random/random_distributions.h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite

_MANTISSA, _ONE = 0x7FFFFF, 0x3F800000
_LEAST = 1e-7


def rewrite_stateless_uniform(op: Op, _shape: Any, *seed: Any) -> Any:
    """In [0, 1), to the bit. Types other than float32 stay as they are."""
    shape = _shape_of(op)
    return None if shape is None else _make_floats(_draw_bits(op, shape, seed))


def rewrite_stateless_normal(op: Op, _shape: Any, *seed: Any) -> Any:
    """By Box and Muller, of two uniform numbers two. Off by a few units in the last place."""
    shape = _shape_of(op)
    if shape is None:
        return None
    count = math.prod(shape)
    first, second = tf.unstack(_make_floats(_draw_bits(op, (-(-count // 2), 2), seed)), axis=1)
    angle = tf.cast(2 * math.pi * tf.cast(second, tf.float64), tf.float32)
    length = tf.sqrt(-2.0 * tf.math.log(tf.maximum(first, _LEAST)))
    pairs = tf.stack([length * tf.sin(angle), length * tf.cos(angle)], axis=1)
    return tf.reshape(tf.reshape(pairs, [-1])[:count], shape)


def _shape_of(op: Op) -> tuple[int, ...] | None:
    """The shape of the answer; None where it is not of float32, or has an open size."""
    (answer,) = op.outputs
    if answer.dtype != tf.float32 or answer.shape is None or None in answer.shape:
        return None
    return tuple(size for size in answer.shape if size is not None)


def _draw_bits(op: Op, shape: tuple[int, ...], seed: tuple[Any, ...]) -> Any:
    """32 for each number. ``seed``: two numbers, or a key, a counter and the algorithm."""
    raw, names = tf.raw_ops, ("seed",) if len(seed) == 1 else ("key", "counter", "alg")
    full = raw.StatelessRandomUniformFullInt if len(seed) == 1 else raw.StatelessRandomUniformFullIntV2
    return full(shape=shape, dtype=tf.uint32, **dict(zip(names, seed, strict=True)))


def _make_floats(bits: Any) -> Any:
    """In [0, 1): the lower 23 bits are the mantissa of a number in [1, 2)."""
    mantissa = tf.bitwise.bitwise_and(bits, tf.constant(_MANTISSA, tf.uint32))
    return tf.bitcast(tf.bitwise.bitwise_or(mantissa, tf.constant(_ONE, tf.uint32)), tf.float32) - 1.0


REWRITES: Mapping[str, Rewrite] = {
    "StatelessRandomNormal": rewrite_stateless_normal,
    "StatelessRandomNormalV2": rewrite_stateless_normal,
    "StatelessRandomUniform": rewrite_stateless_uniform,
    "StatelessRandomUniformV2": rewrite_stateless_uniform,
}
