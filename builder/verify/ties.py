"""Equal scores whose order an unstable sort decides: TensorFlow's answer is then one of several right ones."""

from __future__ import annotations

from typing import Any

from builder.base.tf import tf
from builder.importers.rewrite import replace_by_function

UNSTABLE = "CombinedNonMaxSuppression"
"""TensorFlow's op that sorts by ``std::sort``."""

_SCORES = 1
"""Number of the input that has the scores to sort by."""


def break_ties(definition: Any, *, first: bool) -> Any:
    """Move equal scores apart in the last place, in place, for each UNSTABLE op at the top; return ``definition``.

    ``first``: the first of several equal ones stays the greatest; else the last does.
    """
    floats = [tf.float32]
    for number, node in enumerate([node for node in definition.node if node.op == UNSTABLE]):
        apart = definition.node.add(name=f"{node.name}/ties")
        name, scores = f"break_ties_{number}", [node.input[_SCORES]]
        replace_by_function(
            apart, name, definition.library, lambda values: _move_apart(values, first), scores, floats, floats
        )
        node.input[_SCORES] = apart.name
    return definition


def _move_apart(scores: Any, first: bool) -> Any:
    """Lower those of ``scores`` that are equal to others by 0, 1, 2, ... units in the last place."""
    flat = tf.reshape(scores, [-1])
    order = tf.argsort(flat if first else tf.reverse(flat, [0]), stable=True)
    places = order if first else tf.size(flat) - 1 - order
    ordered = tf.gather(flat, places)
    rank = tf.range(tf.size(flat)) - tf.searchsorted(ordered, ordered)
    step = tf.where(tf.math.is_finite(ordered), tf.maximum(tf.abs(ordered) * 2.0**-23, 1e-30), 0.0)
    lower = ordered - tf.cast(rank, scores.dtype) * step
    return tf.reshape(tf.scatter_nd(places[:, None], lower, tf.shape(flat)), tf.shape(scores))
