"""Arithmetic with the bits of numbers: hashes of whole numbers, and random numbers of a seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, rewrites

_TIMES = 0xC6A4A7935BD1E995
_MOST = 2**63 - 1


@rewrites("SparseCross")
def rewrite_sparse_cross(op: Op, *inputs: Any) -> Any:
    """Hash every combination of one number from each dense column of whole numbers. The same bits."""
    if op.get_attribute("N") or op.get_attribute("internal_type") != tf.int64 or not op.get_attribute("hashed_output"):
        raise NotRewritten("it is not of dense columns of whole numbers")
    if any(column.dtype != tf.int64 or column.shape.rank != 2 for column in inputs):
        raise NotRewritten("a column of it is of strings")
    rows = int(inputs[0].shape[0])
    hashed = tf.fill((rows, 1), tf.constant(op.get_attribute("hash_key"), tf.int64))
    for column in inputs:
        joined = join_hashes(tf.bitcast(hashed, tf.uint64)[:, :, None], tf.bitcast(column, tf.uint64)[:, None, :])
        hashed = tf.bitcast(tf.reshape(joined, (rows, -1)), tf.int64)
    width = int(hashed.shape[1])
    values = compute_remainder(tf.bitcast(hashed, tf.uint64), op.get_attribute("num_buckets") or _MOST)
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(width), indexing="ij"), -1).reshape(-1, 2)
    return tf.constant(places, tf.int64), tf.reshape(values, (-1,)), tf.constant([rows, width], tf.int64)


def join_hashes(first: Any, second: Any) -> Any:
    """Join two hashes into one, uint64, as ``FingerprintCat64`` in tensorflow/core/platform/fingerprint.h does."""
    bitwise, times = tf.bitwise, make_uint64(_TIMES)
    hashed = bitwise.bitwise_xor(first, times)
    hashed = bitwise.bitwise_xor(hashed, mix_bits(second * times) * times) * times
    return mix_bits(mix_bits(hashed) * times)


def make_uint64(value: int) -> Any:
    """Return a constant of 64 bits."""
    return tf.constant(value, tf.uint64)


def mix_bits(value: Any) -> Any:
    """Combine the bits of ``value`` with the highest of them, as both hashes do."""
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, make_uint64(47)))


def rotate_left(value: Any, by: int) -> Any:
    """Rotate the bits of ``value`` to the left by so many places."""
    bitwise = tf.bitwise
    return bitwise.bitwise_or(
        bitwise.left_shift(value, make_uint64(by)), bitwise.right_shift(value, make_uint64(64 - by))
    )


def compute_remainder(value: Any, by: int) -> Any:
    """Return ``value`` modulo ``by``, as int64 of at least 0."""
    return tf.bitcast(tf.math.floormod(value, make_uint64(by)), tf.int64)


_MANTISSA, _ONE = 0x7FFFFF, 0x3F800000
_LEAST = 1e-7


@rewrites("StatelessRandomUniform", "StatelessRandomUniformV2")
def rewrite_stateless_uniform(op: Op, _shape: Any, *seed: Any) -> Any:
    """Make floats in [0, 1) of the bits that TensorFlow draws, too.

    The same bits. Types other than float32 stay as they are.
    """
    shape = _shape_of(op)
    return None if shape is None else _make_floats(_draw_bits(op, shape, seed))


@rewrites("StatelessRandomNormal", "StatelessRandomNormalV2")
def rewrite_stateless_normal(op: Op, _shape: Any, *seed: Any) -> Any:
    """Make two normal numbers of two uniform ones, by Box and Muller. Off by a few units in the last place."""
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
    """Return the shape of the answer, or None where it is not of float32, or has an open size."""
    (answer,) = op.outputs
    return tuple(answer.shape) if answer.dtype == tf.float32 and answer.shape.is_fully_defined() else None


def _draw_bits(op: Op, shape: tuple[int, ...], seed: tuple[Any, ...]) -> Any:
    """Draw 32 bits for each number. ``seed``: two numbers, or a key, a counter and the algorithm."""
    raw, names = tf.raw_ops, ("seed",) if len(seed) == 1 else ("key", "counter", "alg")
    full = raw.StatelessRandomUniformFullInt if len(seed) == 1 else raw.StatelessRandomUniformFullIntV2
    return full(shape=shape, dtype=tf.uint32, **dict(zip(names, seed, strict=True)))


def _make_floats(bits: Any) -> Any:
    """Make floats in [0, 1): the lower 23 bits are the mantissa of a number in [1, 2)."""
    mantissa = tf.bitwise.bitwise_and(bits, tf.constant(_MANTISSA, tf.uint32))
    return tf.bitcast(tf.bitwise.bitwise_or(mantissa, tf.constant(_ONE, tf.uint32)), tf.float32) - 1.0
