"""Operators that choose among boxes which overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flatbuffers import flexbuffers
from jax import lax

from builder.importers.frameworks.graph_values import Value, read_int
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()


def _measure_overlap(box: Value, boxes: Value) -> Value:
    """Return the intersection over the union of ``box`` with each of ``boxes``, as [y, x, y, x] of their corners."""
    box, boxes = (jnp.concatenate([jnp.minimum(b[..., :2], b[..., 2:]), jnp.maximum(b[..., :2], b[..., 2:])], -1)
                  for b in (box, boxes))  # fmt: skip
    area, areas = (jnp.prod(b[..., 2:] - b[..., :2], axis=-1) for b in (box, boxes))
    sides = jnp.minimum(box[2:], boxes[:, 2:]) - jnp.maximum(box[:2], boxes[:, :2])
    common = jnp.prod(jnp.maximum(sides, 0), axis=-1)
    return jnp.where((area <= 0) | (areas <= 0), 0, common / (area + areas - common))


def choose_boxes(boxes: Value, scores: Value, limit: int, decay: Callable[[Any, Any], Any]) -> Any:
    """Return the numbers of up to ``limit`` boxes [n, 4], their scores, and how many they are.

    The one with the largest score is next, and ``decay`` gives the scores of the others by how much they overlap with
    it. A score of minus infinity is that of a box that is out.
    """

    def choose(i: Any, state: Any) -> Any:
        left, chosen, values, count = state
        best = jnp.argmax(left)
        alive = left[best] > -jnp.inf
        after = decay(left, _measure_overlap(boxes[best], boxes)).at[best].set(-jnp.inf)
        return (
            jnp.where(alive, after, left),
            chosen.at[i].set(jnp.where(alive, best, 0).astype(np.int32)),
            values.at[i].set(jnp.where(alive, left[best], 0)),
            count + alive.astype(np.int32),
        )

    start = (scores, jnp.zeros(limit, np.int32), jnp.zeros(limit, scores.dtype), jnp.zeros((), np.int32))
    return lax.fori_loop(0, limit, choose, start)[1:]


@OPS.define("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppress_boxes(_: Any, boxes: Value, scores: Value, limit: Value, *thresholds: Value) -> Any:
    """Return the chosen boxes and their number, and in V5, where overlap lowers a score, the scores between."""
    most, least, *sigmas = (jnp.reshape(value, ()) for value in thresholds)

    def lower(left: Value, overlaps: Value) -> Value:
        for sigma in sigmas:
            factor = jnp.exp(-overlaps * overlaps * (np.float32(0.5) / sigma))
            left = jnp.where(sigma > 0, left * factor, left)
        return jnp.where((overlaps >= most) | (left <= least), -jnp.inf, left)

    first = jnp.where(scores > least, scores, -jnp.inf)
    chosen, values, count = choose_boxes(jnp.asarray(boxes), first, read_int(limit), lower)
    return (chosen, values, count) if sigmas else (chosen, count)


@OPS.define("TFLite_Detection_PostProcess")
def detect_objects(options: bytes, codes: Value, scores: Value, anchors: Value) -> Any:
    """Return boxes [1, k, 4], classes [1, k], scores [1, k] and their number, of the outputs of a detector.

    ``codes`` [1, n, 4 or more] place boxes relative to ``anchors`` [n, 4]; ``scores``: [1, n, classes].
    """
    keys = flexbuffers.Loads(bytes(options))
    boxes = _decode_boxes(codes[0, :, :4], anchors, [keys[f"{name}_scale"] for name in "yxhw"])
    scores = scores[0, :, np.shape(scores)[2] - keys["num_classes"] :]  # Without that of the background.
    limit, threshold = keys["max_detections"], np.float32(keys["nms_iou_threshold"])

    def choose(values: Value, most: int) -> Any:
        first = jnp.where(values >= np.float32(keys["nms_score_threshold"]), values, -jnp.inf)
        return choose_boxes(boxes, first, most, lambda left, iou: jnp.where(iou > threshold, -jnp.inf, left))

    if keys.get("use_regular_nms"):
        each = min(keys.get("detections_per_class", 100), limit)
        chosen, values, counts = jax.vmap(lambda column: choose(column, each))(scores.T)
        alive = (np.arange(each) < counts[:, None]).reshape(-1)
        order = jnp.argsort(jnp.where(alive, -values.reshape(-1), jnp.inf), stable=True)[:limit]
        places, classes = chosen.reshape(-1)[order], order // each
        values, count = values.reshape(-1)[order], jnp.minimum(jnp.sum(counts), limit)
        alive = np.arange(len(order)) < count
    else:
        each = min(keys["max_classes_per_detection"], keys["num_classes"])
        chosen, _, count = choose(jnp.max(scores, 1), limit)
        classes = jnp.argsort(-scores, axis=1, stable=True)[chosen, :each].reshape(-1)
        places = jnp.repeat(chosen, each)
        values, alive = scores[places, classes], jnp.repeat(np.arange(limit) < count, each)
    results = (boxes[places], classes.astype(np.float32), values)
    kept = (jnp.where(alive.reshape((-1,) + (1,) * (part.ndim - 1)), part, 0)[None] for part in results)
    return (*kept, jnp.reshape(count, 1).astype(np.float32))


def _decode_boxes(codes: Value, anchors: Value, scales: list[float]) -> Value:
    """Return the corners [n, 4] of boxes; centres and sizes are computed in float64, as LiteRT does."""
    codes, anchors = (jnp.asarray(value).astype(np.float64) for value in (codes, anchors))
    scaled = codes / np.asarray(scales, np.float32).astype(np.float64)
    centre = (scaled[:, :2] * anchors[:, 2:] + anchors[:, :2]).astype(np.float32)
    half = (0.5 * jnp.exp(scaled[:, 2:]) * anchors[:, 2:]).astype(np.float32)
    return jnp.concatenate([centre - half, centre + half], 1)
