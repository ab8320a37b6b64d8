"""Hashes of whole numbers, in arithmetic of 64 bits that wraps around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, Rewrite

_TIMES = 0xC6A4A7935BD1E995
_MOST = 2**63 - 1


def cross(op: Op, *inputs: Any) -> Any:
    """Of dense columns of whole numbers, every combination of one of each, hashed. The same bits."""
    if op.attr("N") or op.attr("internal_type") != tf.int64 or not op.attr("hashed_output"):
        raise NotRewritten("it is not of dense columns of whole numbers")
    if any(column.dtype != tf.int64 or column.shape.rank != 2 for column in inputs):
        raise NotRewritten("a column of it is of strings")
    rows = int(inputs[0].shape[0])
    found = tf.fill((rows, 1), tf.constant(op.attr("hash_key"), tf.int64))
    for column in inputs:
        joined = joined_hash(tf.bitcast(found, tf.uint64)[:, :, None], tf.bitcast(column, tf.uint64)[:, None, :])
        found = tf.bitcast(tf.reshape(joined, (rows, -1)), tf.int64)
    width = int(found.shape[1])
    values = remainder(tf.bitcast(found, tf.uint64), op.attr("num_buckets") or _MOST)
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(width), indexing="ij"), -1).reshape(-1, 2)
    return tf.constant(places, tf.int64), tf.reshape(values, (-1,)), tf.constant([rows, width], tf.int64)


def joined_hash(first: Any, second: Any) -> Any:
    """Of two hashes one, uint64: ``FingerprintCat64`` in tensorflow/core/platform/fingerprint.h."""
    bitwise, times = tf.bitwise, word(_TIMES)
    found = bitwise.bitwise_xor(first, times)
    found = bitwise.bitwise_xor(found, mixed(second * times) * times) * times
    return mixed(mixed(found) * times)


def word(value: int) -> Any:
    """A constant of 64 bits."""
    return tf.constant(value, tf.uint64)


def mixed(value: Any) -> Any:
    bitwise = tf.bitwise
    return bitwise.bitwise_xor(value, bitwise.right_shift(value, word(47)))


def turned(value: Any, by: int) -> Any:
    """Its bits, moved up by so many; those that leave come in again."""
    bitwise = tf.bitwise
    return bitwise.bitwise_or(bitwise.left_shift(value, word(by)), bitwise.right_shift(value, word(64 - by)))


def remainder(value: Any, by: int) -> Any:
    """int64, at least 0."""
    return tf.bitcast(tf.math.floormod(value, word(by)), tf.int64)


REWRITES: Mapping[str, Rewrite] = {"SparseCross": cross}
