"""Non-maximum suppression: TensorFlow's kernels, as steps of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.custom_steps import COMBINED_NMS, NMS, call_runtime_step
from builder.importers.rewrites.op import NotRewritten, Op, rewrites
from builder.importers.rewrites.open_sizes import cut_rows, number_rows, with_room

_PADDABLE = ("NonMaxSuppressionV4", "NonMaxSuppressionV5")
_LOWEST = float(np.finfo(np.float32).min)


@rewrites("NonMaxSuppressionWithOverlaps")
@rewrites("NonMaxSuppression", *(f"NonMaxSuppressionV{version}" for version in (2, 3, 4, 5)), any_rows=True)
def rewrite_nms(op: Op, boxes: Any, scores: Any, *rest: Any) -> Any:
    """Call a step of the runtime, which chooses the same boxes in the same order, of equal scores too.

    The thresholds and the largest size have to be constants. Without padding the outputs are as long as there are
    boxes. The data may decide how many boxes are given.
    """
    if boxes.dtype != tf.float32:
        raise NotRewritten(f"its boxes are {boxes.dtype.name}, and there is a kernel for float32 only")
    size = max(0, int(op.get_constant(2)))
    padded = op.type in _PADDABLE and op.get_attribute("pad_to_max_output_size")
    sigma = np.float32(op.get_constant(5)) if op.type == "NonMaxSuppressionV5" else np.float32(0)
    room = size if padded or boxes.shape[0] is None else min(size, boxes.shape[0])
    config = {
        "overlap": float(op.get_attribute("iou_threshold") if op.type == "NonMaxSuppression" else op.get_constant(3)),
        "score": float(op.get_constant(4)) if len(rest) > 2 else _LOWEST,
        "decay": float(np.float32(-0.5) / sigma) if sigma > 0 else 0.0,
        "overlaps": op.type == "NonMaxSuppressionWithOverlaps",
    }
    shapes = [(tf.int32, [room]), (tf.float32, [room]), (tf.int32, [])]
    if boxes.shape[0] is None:  # Those that are not there get a score that is below any threshold.
        (boxes, there), (scores, _) = with_room(boxes), with_room(scores)
        scores = tf.where(number_rows(scores) < there, scores, -np.inf)
    indices, kept, count = call_runtime_step(NMS, config, [boxes, scores], shapes)
    if not padded:
        indices, kept = cut_rows(indices, count), cut_rows(kept, count)
    return {
        "NonMaxSuppressionV4": [indices, count],
        "NonMaxSuppressionV5": [indices, kept, count],
    }.get(op.type, [indices])


@rewrites("CombinedNonMaxSuppression")
def rewrite_combined_nms(op: Op, boxes: Any, scores: Any, *rest: Any) -> Any:
    """Call a step of the runtime, which chooses the same boxes.

    Equal scores of different classes come in the order of the classes.
    """
    batch, count, _, _ = boxes.shape
    per_class, size = int(op.get_constant(2)), int(op.get_constant(3))
    if op.get_attribute("pad_per_class"):
        size = min(size, per_class * scores.shape[2])
    config = {
        "per_class": min(per_class, count),
        "overlap": float(op.get_constant(4)),
        "score": float(op.get_constant(5)),
        "clip": op.get_attribute("clip_boxes"),
    }
    shapes = [(tf.float32, [batch, size, 4]), *[(tf.float32, [batch, size])] * 2, (tf.int32, [batch])]
    return call_runtime_step(COMBINED_NMS, config, [boxes, scores], shapes)
