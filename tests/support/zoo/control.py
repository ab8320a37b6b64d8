"""Control flow, sorting, selection and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from .case import Function, boolean, case, f32, f64, i32, i64, weights


@case(f32("x", 2, 1000), covers=("TopK",))
def top_k() -> Function:
    return lambda x: tuple(tf.math.top_k(x, k=7))


@case(f32("x", 300), covers=("Sort", "Copy"))
def sort() -> Function:
    return lambda x: (tf.sort(x), tf.sort(x, direction="DESCENDING"))


@case(i32("x", 4, 33), ranges={"x": (-20, 20)}, covers=("Sort",))
def sort_int() -> Function:
    return lambda x: (tf.sort(x, axis=0), tf.sort(x, axis=1))


@case(f32("x", 5, 40), covers=("Sort",))
def argsort() -> Function:
    return lambda x: (tf.argsort(x), tf.argsort(x, direction="DESCENDING", stable=True))


@case(f32("keys", 64), i32("values", 64), covers=("Sort", "Copy"))
def sort_key_value() -> Function:
    return lambda keys, values: tuple(xla.key_value_sort(keys, values))


@case(f32("a", 6, 20), i32("b", 6, 20), f32("c", 6, 20), ranges={"b": (0, 4)}, covers=("Sort",))
def sort_three_operands() -> Function:
    """Sorted along the first axis by b, then by a descending: many ties for the first key."""

    def build(a: Any, b: Any, c: Any) -> Any:
        scalars = [tf.TensorSpec((), t.dtype) for t in (a, a, b, b, c, c)]

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def before(a0: Any, a1: Any, b0: Any, b1: Any, c0: Any, c1: Any) -> Any:
            return tf.logical_or(b0 < b1, tf.logical_and(tf.equal(b0, b1), a0 > a1))

        comparator = before.get_concrete_function(*scalars)
        return tuple(xla.variadic_sort([a, b, c], dimension=0, comparator=comparator, is_stable=True))

    return build


@case(f64("x", 3, 50), i64("y", 60), ranges={"y": (-(2**50), 2**50)}, covers=("Sort",))
def sort_wide_types() -> Function:
    return lambda x, y: (*tf.math.top_k(x, 5), tf.sort(y), tf.argsort(y, direction="DESCENDING"))


@case(f32("x", 300), ranges={"x": (-2.0, 2.0)}, covers=("Sort", "TopK"))
def sort_ties() -> Function:
    """Many equal values: which of them comes first is part of the answer."""

    def build(x: Any) -> Any:
        rounded = 2.0 * tf.round(x) + 1.0  # no zeros: XLA sorts -0 before 0, TensorFlow calls them equal
        return tf.argsort(rounded, stable=True), *tf.math.top_k(rounded, 20)

    return build


@case(f32("x", 8, 8), f32("limit"), ranges={"limit": (5.0, 60.0)}, covers=("While",))
def while_dynamic() -> Function:
    """Goes on until the norm passes a limit that comes with the call."""
    kernel = weights(8, 8, scale=0.6)

    def condition(count: Any, x: Any, limit: Any) -> Any:
        return tf.logical_and(tf.norm(x) < limit, count < 50)

    def body(count: Any, x: Any, limit: Any) -> Any:
        return count + 1, x + tf.tanh(x @ kernel), limit

    return lambda x, limit: tf.while_loop(condition, body, (0, x, limit))[:2]


@case(f32("x", 24, 24), covers=("While",))
def while_counted() -> Function:
    kernel = weights(24, 24)

    def body(i: Any, x: Any) -> Any:
        return i + 1, tf.tanh(x @ kernel) + tf.cast(i, tf.float32) * 0.1

    return lambda x: tf.while_loop(lambda i, x: i < 9, body, (0, x))[1]


@case(f32("x", 16, 16), covers=("While",))
def while_nested() -> Function:
    kernel = weights(16, 16)

    def inner(j: Any, i: Any, x: Any) -> Any:
        return j + 1, i, tf.sin(x @ kernel + tf.cast(j, tf.float32))

    def outer(i: Any, x: Any) -> Any:
        return i + 1, tf.while_loop(lambda j, i, x: j < i, inner, (0, i, x))[2]

    return lambda x: tf.while_loop(lambda i, x: i < 5, outer, (0, x))[1]


@case(f32("x", 6, 5))
def map_and_scan() -> Function:
    return lambda x: (
        tf.map_fn(lambda row: tf.sort(row) * 2.0, x),
        tf.scan(lambda total, row: tf.tanh(total) + row, x),
    )


@case(f32("x", 12, 12), f32("threshold"), covers=("Conditional",))
def cond() -> Function:
    kernel = weights(12, 12)
    return lambda x, threshold: tf.cond(
        tf.reduce_mean(x) > threshold * 0.1,
        lambda: tf.linalg.matmul(x, kernel),
        lambda: tf.nn.softmax(tf.transpose(x)) - kernel,
    )


@case(i32("branch"), f32("x", 10, 10), ranges={"branch": (-1, 5)}, covers=("Conditional",))
def switch_case() -> Function:
    """An index out of range takes the last branch."""
    kernel = weights(10, 10)
    return lambda branch, x: tf.switch_case(
        branch, [lambda: x @ kernel, lambda: tf.cumsum(x), lambda: tf.sort(x), lambda: x * 2.0]
    )


@case(f32("x", 6, 6), i32("steps"), ranges={"steps": (0, 6)}, covers=("While", "Conditional"))
def cond_inside_while() -> Function:
    kernel = weights(6, 6)

    def body(i: Any, x: Any) -> Any:
        odd = tf.equal(i % 2, 1)
        return i + 1, tf.cond(odd, lambda: tf.tanh(x @ kernel), lambda: tf.nn.softmax(tf.transpose(x)))

    return lambda x, steps: tf.while_loop(lambda i, x: i < steps, body, (0, x))[1]


@case(f32("corners", 40, 2), f32("sizes", 40, 2), f32("scores", 40), covers=("While",))
def non_max_suppression() -> Function:
    def build(corners: Any, sizes: Any, scores: Any) -> Any:
        boxes = tf.concat([corners, corners + tf.abs(sizes)], axis=1)
        return tf.image.non_max_suppression_padded(
            boxes, scores, 12, iou_threshold=0.3, score_threshold=-0.5, pad_to_max_output_size=True
        )

    return build


@case(f32("corners", 10, 2), f32("scores", 10), covers=("Nms",))
def non_max_suppression_unpadded() -> Function:
    """As many boxes as there are: a shape known only at run time, inside the graph."""

    def build(corners: Any, scores: Any) -> Any:
        boxes = tf.concat([corners, corners + 1.0], axis=1)
        chosen = tf.image.non_max_suppression(boxes, scores, 6)
        return tf.reduce_sum(tf.gather(scores, chosen)), tf.size(chosen)

    return build


@case(i32("x", 40), ranges={"x": (0, 12)})
def unique() -> Function:
    """The distinct values have no static shape; what is fetched of them has."""

    def build(x: Any) -> Any:
        _, index = tf.unique(x)
        return index, tf.math.unsorted_segment_sum(x, index, 40)

    return build


@case(f32("x", 5, 6), boolean("mask", 5, 6))
def where() -> Function:
    return lambda x, mask: (
        tf.where(mask, x, -1.0),
        tf.where(tf.logical_not(mask) & (x > 0.0), tf.exp(x), tf.zeros_like(x)),
    )


@case(i32("seed", 2), ranges={"seed": (0, 1000)})
def stateless_random_int() -> Function:
    """The same seed gives the same whole numbers as TensorFlow."""
    return lambda seed: tf.random.stateless_uniform((90,), seed, 0, 1000, tf.int32, alg="philox")


@case(i32("seed", 2), ranges={"seed": (0, 1000)}, covers=("Call",))
def stateless_random_float() -> Function:
    """XLA makes other floats of the generator's bits than TensorFlow's own kernels do: rewritten."""
    return lambda seed: (
        tf.random.stateless_uniform((3, 17), seed, alg="philox"),
        tf.random.stateless_normal((40,), seed, alg="philox"),
    )


@case(f32("x", 4, 32), random=True, covers=("Rng", "Call"))
def stateful_random() -> Function:
    """Uniform in [0, 1), integers in [5, 15), and a dropout left switched on."""
    return lambda x: (
        tf.random.uniform((4, 32)),
        tf.random.uniform((64,), 5, 15, tf.int32),
        tf.nn.dropout(tf.ones_like(x) + 0.0 * x, rate=0.25),
    )


@case(f32("x", 2, 30))
def beam_of_scores() -> Function:
    """Top-k, gather and a scan: the shape of a decoder's step."""
    table = weights(30, 6, scale=1.0)

    def build(x: Any) -> Any:
        values, index = tf.math.top_k(x, k=4)
        rows = tf.gather(table, index)
        return tf.cumsum(rows * values[..., None], axis=1), tf.cast(index, tf.int64)

    return build


@case(f32("x", 3, 8), i32("lengths", 3), ranges={"lengths": (0, 9)})
def sequence_mask() -> Function:
    positions = np.arange(8, dtype=np.int32)
    return lambda x, lengths: tf.reduce_sum(tf.where(positions < lengths[:, None], x, 0.0), axis=1)
