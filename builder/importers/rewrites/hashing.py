"""Hashes of whole numbers, in arithmetic of 64 bits that wraps around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, Rewrite

_TIMES = 0xC6A4A7935BD1E995
_MOST = 2**63 - 1


def rewrite_sparse_cross(op: Op, *inputs: Any) -> Any:
    """Of dense columns of whole numbers, every combination of one of each, hashed. The same bits."""
    if op.get_attribute("N") or op.get_attribute("internal_type") != tf.int64 or not op.get_attribute("hashed_output"):
        raise NotRewritten("it is not of dense columns of whole numbers")
    if any(column.dtype != tf.int64 or column.shape.rank != 2 for column in inputs):
        raise NotRewritten("a column of it is of strings")
    rows = int(inputs[0].shape[0])
    found = tf.fill((rows, 1), tf.constant(op.get_attribute("hash_key"), tf.int64))
    for column in inputs:
        joined = join_hashes(tf.bitcast(found, tf.uint64)[:, :, None], tf.bitcast(column, tf.uint64)[:, None, :])
        found = tf.bitcast(tf.reshape(joined, (rows, -1)), tf.int64)
    width = int(found.shape[1])
    values = compute_remainder(tf.bitcast(found, tf.uint64), op.get_attribute("num_buckets") or _MOST)
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(width), indexing="ij"), -1).reshape(-1, 2)
    return tf.constant(places, tf.int64), tf.reshape(values, (-1,)), tf.constant([rows, width], tf.int64)


def join_hashes(first: Any, second: Any) -> Any:
    """Of two hashes one, uint64: ``FingerprintCat64`` in tensorflow/core/platform/fingerprint.h."""
    bitwise, times = tf.bitwise, make_uint64(_TIMES)
    found = bitwise.bitwise_xor(first, times)
    found = bitwise.bitwise_xor(found, mix_bits(second * times) * times) * times
    return mix_bits(mix_bits(found) * times)


def make_uint64(value: int) -> Any:
    """A constant of 64 bits."""
    return tf.constant(value, tf.uint64)


def mix_bits(value: Any) -> Any:
    bitwise = tf.bitwise
    return bitwise.bitwise_xor(value, bitwise.right_shift(value, make_uint64(47)))


def rotate_left(value: Any, by: int) -> Any:
    """Its bits, moved up by so many; those that leave come in again."""
    bitwise = tf.bitwise
    return bitwise.bitwise_or(
        bitwise.left_shift(value, make_uint64(by)), bitwise.right_shift(value, make_uint64(64 - by))
    )


def compute_remainder(value: Any, by: int) -> Any:
    """int64, at least 0."""
    return tf.bitcast(tf.math.floormod(value, make_uint64(by)), tf.int64)


REWRITES: Mapping[str, Rewrite] = {"SparseCross": rewrite_sparse_cross}
