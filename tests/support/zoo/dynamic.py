"""Outputs whose size the data decides."""

from __future__ import annotations

import tensorflow as tf

from .case import Function, boolean, case, f32, i32, weights


@case(boolean("m", 4, 6))
def where_indices() -> Function:
    """The second has the open dimension last: what is there is without gaps all the same."""
    return lambda m: (tf.where(m), tf.transpose(tf.where(m)))


@case(f32("x", 12, 5), f32("y", 12))
def boolean_mask() -> Function:
    """A product of the rows that are kept, and a softmax over them."""
    kernel = weights(5, 64)

    def rows(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
        kept = tf.boolean_mask(x, y > 0)
        return kept, kept @ kernel, tf.nn.softmax(kept, axis=0), tf.reduce_sum(kept)

    return rows


@case(f32("x", 7))
def every_pair() -> Function:
    """Two open dimensions, of bool too."""

    def pairs(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        kept = tf.boolean_mask(x, x > 0)
        return kept[:, None] * kept[None, :], kept[:, None] > kept[None, :]

    return pairs


@case(i32("x", 20), ranges={"x": (0, 6)})
def distinct_values() -> Function:
    return lambda x: (*tf.unique(x), tf.unique(tf.minimum(x, 2))[0])


@case(f32("boxes", 30, 4), f32("scores", 30), ranges={"boxes": (0.0, 1.0), "scores": (0.0, 1.0)})
def boxes_that_are_left() -> Function:
    """NonMaxSuppressionV3: no padding, and boxes below the threshold are left out."""

    def kept(boxes: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
        found = tf.image.non_max_suppression(boxes, scores, 10, iou_threshold=0.3, score_threshold=0.7)
        return found, tf.gather(boxes, found)

    return kept


@case(f32("x", 5, 6))
def ragged_rows() -> Function:
    """The values of a ragged tensor and where its rows end."""

    def rows(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        ragged = tf.ragged.boolean_mask(x, x > 0)
        return ragged.flat_values, ragged.row_splits, ragged.row_lengths()

    return rows


@case(f32("x", 9))
def as_many_as_counted() -> Function:
    """A slice whose end is computed."""
    return lambda x: x[: tf.reduce_sum(tf.cast(x > 0, tf.int32))] * 2.0
