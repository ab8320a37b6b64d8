"""Numbers that ops treat differently: NaN, infinities, zeros of both signs, and what does not fit into a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .case import Function, case, f32, i32, weights

ROWS, COLUMNS = 4, 6
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-8, 1 - 1e-7, 300.0, 3e9, -3e9, 1e19)

_EDGES = (-1.0, 0.0, 0.5)


def _casts() -> Mapping[str, Callable[[Any, Any], Any]]:
    return {
        f"{source} to {wanted}": lambda x, n, source=source, wanted=wanted: tf.cast(tf.cast(x, source), wanted)
        for source in ("float32", "float64", "bfloat16")
        for wanted in ("int32", "int64")
    }


ANSWERS: Mapping[str, Callable[[Any, Any], Any]] = {
    **_casts(),
    "largest of a row": lambda x, n: tf.reduce_max(x, 1),
    "least of a row": lambda x, n: tf.reduce_min(x, 1),
    "largest of a column": lambda x, n: tf.reduce_max(x, 0),
    "largest of all": lambda x, n: tf.reduce_max(x),
    "largest of a layer's outputs": lambda x, n: tf.reduce_max(tf.nn.relu((x @ weights(COLUMNS, 8))[None]), 1),
    "larger of two": lambda x, n: tf.maximum(x, x[::-1]),
    "less of two": lambda x, n: tf.minimum(x, x[::-1]),
    "clipped": lambda x, n: tf.clip_by_value(x, -0.5, 0.5),
    "activated": lambda x, n: tf.stack([tf.nn.relu(x), tf.nn.relu6(x), tf.nn.leaky_relu(x)]),
    "place of the largest": lambda x, n: tf.argmax(x, 1),
    "place of the least": lambda x, n: tf.argmin(x, 0, tf.int32),
    "bucket": lambda x, n: tf.raw_ops.Bucketize(input=x, boundaries=_EDGES),
    "place behind": lambda x, n: tf.searchsorted(_EDGES, tf.reshape(x, [-1]), side="right"),
    "place before": lambda x, n: tf.searchsorted(_EDGES, tf.reshape(x, [-1])),
    "among the largest": lambda x, n: tf.math.in_top_k([0, 1, 7, 5], x, 3),
    "quantile": lambda x, n: tf.math.ndtri(x),
    "size of a square": lambda x, n: tf.abs(n * n),
    "size of a long power": lambda x, n: tf.abs(tf.cast(n, tf.int64) ** 4),
}
"""Of numbers [ROWS, COLUMNS] and as many whole numbers, by what they show."""

ORDERS: Mapping[str, Callable[[Any], Any]] = {
    "largest first": lambda x: tf.argsort(x, direction="DESCENDING"),
    "least first": lambda x: tf.argsort(x),
    "least first as float64": lambda x: tf.argsort(tf.cast(x, tf.float64)),
    "inverses": lambda x: 1 / tf.sort(x),  # which tell zeros apart
    "the three largest": lambda x: tf.math.top_k(x, 3)[1],
}
"""Of numbers [ROWS, COLUMNS]: TensorFlow does not say where NaN comes."""


def special_answers(x: Any, n: Any) -> list[Any]:
    """Return all ANSWERS, and then all ORDERS."""
    return [*(answer(x, n) for answer in ANSWERS.values()), *(order(x) for order in ORDERS.values())]


@case(
    f32("x", ROWS, COLUMNS),
    i32("n", ROWS, COLUMNS),
    i32("kind", ROWS, COLUMNS),
    ranges={"n": (-(2**31), 2**31), "kind": (0, 2 * len(SPECIAL))},
)
def special_numbers() -> Function:
    """Half of ``x`` is replaced. Orders are those of numbers without NaN."""

    def run(x: Any, n: Any, kind: Any) -> list[Any]:
        mixed = tf.where(kind < len(SPECIAL), tf.gather(SPECIAL, tf.minimum(kind, len(SPECIAL) - 1)), x)
        answers = [answer(mixed, n) for answer in ANSWERS.values()]
        return [*answers, *(order(tf.where(tf.math.is_nan(mixed), -0.0, mixed)) for order in ORDERS.values())]

    return run
