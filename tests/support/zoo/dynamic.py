"""Outputs whose size the data decides."""

from __future__ import annotations

import tensorflow as tf

from .case import Function, boolean, case, f32, i32, weights


@case(boolean("m", 4, 6), f32("x", 9))
def where_indices() -> Function:
    """The second has the open dimension last: what is there is without gaps all the same. The third is a slice whose
    end is computed."""
    return lambda m, x: (
        tf.where(m),
        tf.transpose(tf.where(m)),
        x[: tf.reduce_sum(tf.cast(x > 0, tf.int32))] * 2.0,
    )


@case(f32("x", 12, 5), f32("y", 12))
def boolean_mask() -> Function:
    """A product of the rows that are kept, a softmax over them, and a ragged tensor: its values, and where rows end."""
    kernel = weights(5, 64)

    def rows(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
        kept = tf.boolean_mask(x, y > 0)
        ragged = tf.ragged.boolean_mask(x, x > 0)
        products = kept, kept @ kernel, tf.nn.softmax(kept, axis=0), tf.reduce_sum(kept)
        return (*products, ragged.flat_values, ragged.row_splits)

    return rows


@case(f32("x", 7))
def every_pair() -> Function:
    """Two open dimensions, of bool too."""

    def pairs(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        kept = tf.boolean_mask(x, x > 0)
        return kept[:, None] * kept[None, :], kept[:, None] > kept[None, :]

    return pairs


@case(
    f32("boxes", 30, 4), f32("scores", 30), i32("classes", 30),
    ranges={"boxes": (0.0, 1.0), "scores": (0.0, 1.0), "classes": (0, 6)},
)  # fmt: skip
def boxes_that_are_left() -> Function:
    """NonMaxSuppressionV3 without padding, which leaves out boxes below the threshold; the same of boxes that a mask
    leaves; all distinct classes; and a loop over the boxes. XLA makes one kernel of each loop."""

    def kept(boxes: tf.Tensor, scores: tf.Tensor, classes: tf.Tensor) -> tuple[tf.Tensor, ...]:
        found = tf.image.non_max_suppression(boxes, scores, 10, iou_threshold=0.3, score_threshold=0.7)
        some = tf.boolean_mask(boxes, classes > 2)
        best = tf.image.non_max_suppression(some, tf.boolean_mask(scores, classes > 2), 5)
        sizes = tf.map_fn(lambda box: tf.tanh(box[2:] - box[:2]), some)
        return found, tf.gather(boxes, found), *tf.unique(classes), tf.gather(some, best), sizes

    return kept


@case(f32("x", 1, 16, 16, 3), i32("limit"), ranges={"limit": (-1, 2)})
def pixels_that_are_left() -> Function:
    """Convolutions, and a product of the pixels that are kept: none, some or all. A mask over two dimensions, and one
    over the second of three."""
    first, second, third = weights(3, 3, 3, 16), weights(3, 3, 16, 16, seed=1), weights(16, 1)
    dense = weights(16, 128)

    def kept(x: tf.Tensor, limit: tf.Tensor) -> tuple[tf.Tensor, ...]:
        half = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME")), 2, 2, "SAME")
        features = tf.nn.relu(tf.nn.conv2d(half, second, 1, "SAME") + half)[0]
        scores = tf.linalg.matmul(features, third)[..., 0]
        scores = tf.tanh(scores - tf.reduce_mean(scores))
        pixels = tf.boolean_mask(features, scores > tf.cast(limit, tf.float32))
        columns = tf.boolean_mask(features, scores[0] > tf.cast(limit, tf.float32), axis=1)
        return pixels, pixels @ dense, columns

    return kept
