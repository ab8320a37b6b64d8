"""Ops that XLA has no kernel for, at every level of a graph: they are rewritten, and TensorFlow runs the original."""

from __future__ import annotations

import tensorflow as tf

from .case import Function, case, f32, refused


@case(f32("x", 2, 11, 13, 3))
def resized() -> Function:
    """Twice in a function that is called with two shapes."""

    @tf.function(autograph=False)
    def small(x: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(tf.debugging.check_numerics(x, "no number"), (5, 7), "bicubic")

    return lambda x: (
        small(x) + small(x[:, ::2]),
        tf.image.resize(x, (5, 30), "area"),
        tf.image.resize(x, (20, 6), "lanczos3", antialias=True),
    )


@case(f32("x", 2, 11, 13, 3))
def resized_in_loops_and_branches() -> Function:
    def step(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        bigger = tf.image.resize(x, (20, 31), "bicubic")
        again = tf.cond(
            tf.equal(i % 2, 0),
            lambda: tf.image.resize(bigger, (11, 13), "area"),
            lambda: tf.image.resize(bigger, (11, 13), "bicubic")[:, ::-1],
        )
        return i + 1, again

    return lambda x: (
        tf.while_loop(lambda i, _: i < 3, step, (0, x))[1],
        tf.map_fn(lambda one: tf.image.resize(one, (5, 6), "bicubic"), x),
    )


@refused("ScaleAndTranslate x1: its input 2 is not a constant", f32("x", 1, 8, 8, 3), f32("scale", 2))
def scaled_by_a_feed() -> Function:
    return lambda x, scale: tf.raw_ops.ScaleAndTranslate(images=x, size=[4, 4], scale=scale, translation=[0.0, 0.0])
