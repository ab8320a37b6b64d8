"""The steps of the spec that are compiled in after the model: scores to probabilities, vectors to embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.config import Activation, ModelSpec, OutputSpec

_LEAST = 1e-24
"""The least sum of squares in a division by its root, as in PyTorch's ``normalize``, so that zeros stay zeros."""


@dataclass(frozen=True)
class Ending:
    """The steps that follow a fetch, in this order."""

    activation: Activation = "none"
    dimensions: int | None = None
    normalise: bool = False
    segmentation: bool = False
    labels: int = 0  # The number of labels of a segmentation.


def find_ending(spec: ModelSpec, fetch: str, count: int) -> Ending:
    """Return the ending of ``fetch``, one of ``count``, or raise ImportModelError where outputs ask for several."""
    endings = {
        _make_ending(output, name)
        for output in spec.outputs
        for name in output.fetches
        if name == fetch or (name is None and count == 1)
    }
    if len(endings) > 1:
        raise ImportModelError(
            f"[[outputs]] asks for different activations, dimensions or normalise on the same fetch {fetch!r}: a fetch "
            "has one of each."
        )
    return endings.pop() if endings else Ending()


def _make_ending(output: OutputSpec, fetch: str | None) -> Ending:
    if output.kind == "detection":
        return Ending(output.activation) if fetch == output.scores else Ending()
    if output.kind == "segmentation":
        return Ending(output.activation, segmentation=True, labels=len(output.labels))
    return Ending(output.activation, output.dimensions, output.normalise)


def apply_ending(value: Any, wanted: Ending, fetch: str) -> Any:
    """Return ``value`` with its ending, or raise ImportModelError where that is impossible.

    An ending is softmax over the last axis or sigmoid, the first ``dimensions`` of the last axis, and the division of
    that axis by its Euclidean norm; for a segmentation, it is ``compute_class_map``.
    """
    if wanted.segmentation:
        return compute_class_map(value, wanted, fetch)
    value = _apply_activation(value, wanted.activation, fetch)
    if wanted.dimensions is None and not wanted.normalise:
        return value
    size = value.shape[-1] if value.shape.rank else 1
    if wanted.dimensions is not None:
        if size is None or wanted.dimensions > size:
            raise ImportModelError(
                f"[[outputs]] asks for {wanted.dimensions} dimensions of {fetch!r}, which has {size}."
            )
        value = value[..., : wanted.dimensions]
    if wanted.normalise:
        _require_floats(value, "normalise", fetch)
        value = tf.math.l2_normalize(value, axis=-1, epsilon=_LEAST)
    return value


def compute_class_map(value: Any, wanted: Ending, fetch: str) -> Any:
    """Return each pixel's class, uint8 [batch, height, width]: whole numbers as they are, or the largest score's.

    Scores are [batch, height, width, classes], or [batch, classes, height, width] if that fits the number of labels. A
    single class is 1 where its score, after the activation, is more than a half.
    """
    shape = value.shape.as_list() if value.shape.rank in (3, 4) else []
    labels, floating = wanted.labels, value.dtype.is_floating
    if not shape or None in shape or floating != (len(shape) == 4):
        raise ImportModelError(
            f"[[outputs]] asks for a segmentation of {fetch!r}, which is {value.dtype.name} {value.shape}; it needs "
            "scores [batch, height, width, classes] of floating point, or whole numbers [batch, height, width]."
        )
    if not floating:
        return tf.cast(tf.clip_by_value(tf.cast(value, tf.int32), 0, 254), tf.uint8)
    axis = 1 if shape[1] == labels != shape[3] else 3
    classes = shape[axis]
    if classes > 255 or (labels and labels != max(classes, 2)):
        raise ImportModelError(
            f"[[outputs]] asks for a segmentation of {fetch!r}, {value.shape}, which has {classes} classes; "
            + (f"it has {labels} labels, and needs {max(classes, 2)}." if labels else "at most 255 are possible.")
        )
    if classes == 1:
        return tf.cast(_apply_activation(value, wanted.activation, fetch)[..., 0] > 0.5, tf.uint8)
    return tf.cast(tf.argmax(value, axis, output_type=tf.int32), tf.uint8)  # No activation changes the order of scores.


def _apply_activation(scores: Any, activation: Activation, fetch: str) -> Any:
    if activation == "none":
        return scores
    _require_floats(scores, activation, fetch)
    if activation == "softmax" and scores.shape.rank == 0:
        raise ImportModelError(f"[[outputs]] asks for softmax on {fetch!r}, which is a scalar.")
    return tf.nn.softmax(scores) if activation == "softmax" else tf.sigmoid(scores)


def _require_floats(value: Any, asked: str, fetch: str) -> None:
    if not value.dtype.is_floating:
        raise ImportModelError(
            f"[[outputs]] asks for {asked} on {fetch!r}, which is {value.dtype.name}; it needs floating point."
        )
