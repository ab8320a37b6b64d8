"""Detected objects, with their boxes in the image that was sent, however ``fit`` changed it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..answer import ItemOutputs
from ..crop import Frame, make_frame
from ..description import Detection, Output
from ..named_tuples import NamedTuple
from ..typed import Any

Box = tuple[float, float, float, float]


class DetectedObject(NamedTuple):
    """An object, whose box is the row ``number`` of the boxes."""

    score: float
    number: int
    category: int


def format_answer(output: Output, item: ItemOutputs) -> list[dict[str, Any]]:
    """Return label, score and box of each object, best first: left, top, right, bottom in pixels of the upright image.

    Boxes are clipped to the image. Objects outside of it, without area or with undefined edges are left out.
    """
    assert output.detection is not None  # the description was checked
    boxes, _ = item.get_values(output.fetch)
    frame = make_frame(item.description, item.size)
    answer: list[dict[str, Any]] = []
    objects = _find_objects(output.detection, item, len(boxes) // 4)
    for detected in sorted(objects, key=lambda one: (-one.score, one.number)):
        if len(answer) == output.top_k:
            break
        box = tuple(boxes[4 * detected.number : 4 * detected.number + 4])
        left, top, right, bottom = edges = [round(edge, 2) for edge in convert_box(box, output.detection, frame)]
        if left < right and top < bottom:  # false for a NaN, too
            score = float(format(detected.score, ".9g"))
            answer.append({"label": output.get_label(detected.category), "score": score, "box": edges})
    return answer


def convert_box(box: tuple[float, ...], detection: Detection, frame: Frame) -> Box:
    """Convert a model's ``box`` to left, top, right, bottom in pixels of the image, clipped to it."""
    a, b, c, d = box
    if detection.box_format == "yxyx":
        a, b, c, d = b, a, d, c
    elif detection.box_format == "xywh":
        c, d = a + c, b + d
    elif detection.box_format == "cxcywh":
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    across, down = frame.shown if detection.box_units == "relative" else (1, 1)
    left, top = frame.fit.map_to_source(a * across, b * down)
    right, bottom = frame.fit.map_to_source(c * across, d * down)
    width, height = frame.size
    return _clip_edge(left, width), _clip_edge(top, height), _clip_edge(right, width), _clip_edge(bottom, height)


def _find_objects(detection: Detection, item: ItemOutputs, rows: int) -> Iterator[DetectedObject]:
    """Yield the objects among the first ``rows`` whose scores reach the threshold."""
    scores, _ = item.get_values(detection.scores)
    classes = item.get_values(detection.classes)[0] if detection.classes else None
    each = len(scores) // max(1, rows) if classes is None else 1
    if detection.counts:
        counted = item.get_values(detection.counts)[0][0]
        rows = min(rows, max(0, int(counted))) if math.isfinite(counted) else 0
    for number in range(rows):
        if each > 1:
            of_classes = scores[number * each : (number + 1) * each].tolist()
            score = max(of_classes)
            category = of_classes.index(score)
        else:
            score = scores[number]
            category = int(classes[number]) if classes is not None and math.isfinite(classes[number]) else 0
        if score >= detection.threshold and score < math.inf:
            yield DetectedObject(score, number, category)


def _clip_edge(value: float, most: int) -> float:
    return min(max(value, 0.0), float(most)) if math.isfinite(value) else math.nan
