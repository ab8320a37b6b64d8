"""Non-maximum suppression in all forms that TensorFlow has: steps of the runtime."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .case import Function, case, f32

raw = tf.raw_ops
FEEDS = (f32("corners", 2, 40, 2), f32("sizes", 2, 40, 2), f32("scores", 2, 40, 3))


def boxes_of(corners: Any, sizes: Any) -> Any:
    """Some are given by their other corners."""
    return tf.concat([corners, corners + sizes], -1)


@case(*FEEDS, covers=("Nms",))
def suppression() -> Function:
    """Every version, soft too; what is not padded is as long as there are boxes."""

    def build(corners: Any, sizes: Any, scores: Any) -> Any:
        boxes, score = boxes_of(corners, sizes)[0], tf.round(scores[0, :, 0] * 4) / 4  # many are equal
        both = {"boxes": boxes, "scores": score}
        overlaps = tf.abs(scores[0] @ tf.transpose(scores[0]))
        listed = (
            raw.NonMaxSuppression(**both, max_output_size=25, iou_threshold=0.2),
            raw.NonMaxSuppressionV2(**both, max_output_size=7, iou_threshold=0.2),
            raw.NonMaxSuppressionWithOverlaps(
                overlaps=overlaps, scores=score, max_output_size=9, overlap_threshold=1.0, score_threshold=0.0
            ),
        )
        soft = raw.NonMaxSuppressionV5(
            **both, max_output_size=30, iou_threshold=1.0, score_threshold=0.1, soft_nms_sigma=0.4
        )
        return (
            *raw.NonMaxSuppressionV4(
                **both, max_output_size=50, iou_threshold=0.2, score_threshold=-0.5, pad_to_max_output_size=True
            ),
            *soft,
            *listed,
            *(tf.reduce_sum(tf.gather(boxes, indices), axis=0) for indices in listed),
        )

    return build


@case(*FEEDS, covers=("Nms", "CombinedNms"))
def detection() -> Function:
    """Of all classes together, with a picture's boxes or each class's own; and of each picture in a loop."""

    def build(corners: Any, sizes: Any, scores: Any) -> Any:
        boxes = boxes_of(corners, sizes) / 2.0
        of_classes = boxes[:, :, None] + tf.reshape(tf.constant([0.0, 0.1, 0.2]), (1, 1, 3, 1))

        def of_picture(picture: Any) -> Any:
            found = raw.NonMaxSuppressionV4(
                boxes=picture[0],
                scores=picture[1],
                max_output_size=6,
                iou_threshold=0.1,
                score_threshold=0.0,
                pad_to_max_output_size=True,
            )
            return found.selected_indices, found.valid_outputs

        return (
            *tf.image.combined_non_max_suppression(boxes[:, :, None], scores, 8, 20, 0.3, 0.2),
            *tf.image.combined_non_max_suppression(
                of_classes, scores, 3, 20, 0.3, pad_per_class=True, clip_boxes=False
            ),
            tf.map_fn(of_picture, (boxes, scores[:, :, 1]), fn_output_signature=(tf.int32, tf.int32)),
        )

    return build
