"""Objects with their places in the picture that was sent, whatever ``fit`` made of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..answer import ItemOutputs
from ..description import Detection, Output, Port
from ..tuples import NamedTuple
from ..typed import Any
from .frame import Frame, make_frame

Box = tuple[float, float, float, float]


class DetectedObject(NamedTuple):
    """An object: row ``number`` of the boxes."""

    score: float
    number: int
    category: int


def format_answer(output: Output, item: ItemOutputs) -> list[dict[str, Any]]:
    """The objects, the best first: label, score and box (left, top, right, bottom) in pixels of the upright picture.

    Boxes end where the picture does. What lies outside of it, has no area or is undefined is no object.
    """
    assert output.detection is not None  # the description was checked
    boxes, _ = item.get_values(output.fetch)
    place = make_frame(item)
    told: list[dict[str, Any]] = []
    for found in sorted(
        _find_objects(output.detection, item, len(boxes) // 4), key=lambda one: (-one.score, one.number)
    ):
        if len(told) == output.top_k:
            break
        box = tuple(boxes[4 * found.number : 4 * found.number + 4])
        left, top, right, bottom = edges = [round(edge, 2) for edge in convert_box(box, output.detection, place)]
        if left < right and top < bottom:  # not where one is NaN
            score = float(format(found.score, ".9g"))
            told.append({"label": _label(output, found.category), "score": score, "box": edges})
    return told


def compute_min_length(output: Output, ports: Mapping[str, Port]) -> int:
    """Characters that ``format_answer`` has at least."""
    return len("[]")


def convert_box(box: tuple[float, ...], detection: Detection, place: Frame) -> Box:
    """A model's ``box`` as left, top, right, bottom in pixels of the picture, no larger than it."""
    a, b, c, d = box
    if detection.box_format == "yxyx":
        a, b, c, d = b, a, d, c
    elif detection.box_format == "xywh":
        c, d = a + c, b + d
    elif detection.box_format == "cxcywh":
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    across, down = place.shown if detection.box_units == "relative" else (1, 1)
    left, top = place.fit.map_to_source(a * across, b * down)
    right, bottom = place.fit.map_to_source(c * across, d * down)
    width, height = place.size
    return _clip_edge(left, width), _clip_edge(top, height), _clip_edge(right, width), _clip_edge(bottom, height)


def _find_objects(detection: Detection, item: ItemOutputs, rows: int) -> Iterator[DetectedObject]:
    """The objects among the ``rows`` whose scores are enough."""
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


def _label(output: Output, category: int) -> str:
    return output.labels[category] if 0 <= category < len(output.labels) else str(category)
