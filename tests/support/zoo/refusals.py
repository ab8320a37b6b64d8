"""Graphs that cannot be compiled, each with the op whose name the refusal must carry."""

from __future__ import annotations

import tensorflow as tf

from .case import Function, f32, i32, refused


@refused("StringToNumber", f32("x", 4))
def string_to_number() -> Function:
    """AsString is refused too: a refusal names both, where the compiler stops at the first."""
    return lambda x: x + tf.strings.to_number(tf.strings.as_string(x))


@refused("DecodeJpeg", i32("length"))
def decode_jpeg() -> Function:
    return lambda length: tf.reduce_sum(tf.io.decode_jpeg(tf.strings.as_string(length), channels=3))


@refused("PyFunc", f32("x", 3))
def python_function() -> Function:
    return lambda x: tf.ensure_shape(tf.numpy_function(lambda v: v * 2, [x], tf.float32), (3,))
