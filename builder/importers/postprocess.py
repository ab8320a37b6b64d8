"""What the spec compiles into the graph behind the model: raw scores to probabilities, vectors to embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.config import Activation, ModelSpec, OutputSpec

_LEAST = 1e-24
"""A sum of squares that a division by its root takes at least, as PyTorch's ``normalize`` does: zeros stay zeros."""


@dataclass(frozen=True)
class Ending:
    """What follows a fetch, in this order."""

    activation: Activation = "none"
    dimensions: int | None = None
    normalise: bool = False
    segmentation: bool = False
    labels: int = 0  # of a segmentation


def find_ending(spec: ModelSpec, fetch: str, count: int) -> Ending:
    """What follows the ``fetch``, one of ``count``. Raises ImportModelError where outputs ask for several endings."""
    wanted = {
        _make_ending(output, name)
        for output in spec.outputs
        for name in output.fetches
        if name == fetch or (name is None and count == 1)
    }
    if len(wanted) > 1:
        raise ImportModelError(
            f"[[outputs]] asks for different activations, dimensions or normalise on the same fetch {fetch!r}: a fetch "
            "has one of each."
        )
    return wanted.pop() if wanted else Ending()


def _make_ending(output: OutputSpec, fetch: str | None) -> Ending:
    if output.kind == "detection":
        return Ending(output.activation) if fetch == output.scores else Ending()
    if output.kind == "segmentation":
        return Ending(output.activation, segmentation=True, labels=len(output.labels))
    return Ending(output.activation, output.dimensions, output.normalise)


def apply_ending(value: Any, wanted: Ending, fetch: str) -> Any:
    """``value`` with its ending: softmax over the last axis or sigmoid; of the last axis the first ``dimensions``; all
    of that axis divided by its Euclidean norm; of a segmentation ``compute_class_map``.

    Raises ImportModelError where that cannot be.
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
    """The class of each pixel, uint8 [batch, height, width]: of whole numbers themselves, or of the largest score.

    Scores are [batch, height, width, classes]; or [batch, classes, height, width] where as many labels tell. One class
    is 1 where its score, after the activation, is more than a half.
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
    return tf.cast(tf.argmax(value, axis, output_type=tf.int32), tf.uint8)  # which no activation changes


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
