"""The steps of the spec that are compiled in before and after the model.

Before it, pixels or sound become its input. After it, scores become probabilities, and vectors embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.config import Activation, AudioSpec, ImageSpec, ModelSpec, OutputSpec


def image_to_input(pixels: Any, image: ImageSpec, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Compute an input of ``dtype`` and ``shape`` from uint8 ``pixels`` [batch, height, width, channels], RGB or grey.

    Computes ``(pixel - mean) * scale`` in float32 (float64 for a float64 model), channels in the model's order, and
    before pixels if the model has its channels first. Raises ImportModelError if an integer model is given a scale, or
    if its type cannot hold ``pixel - mean``.
    """
    channels = image.channels
    mean, scale = _per_channel(image.mean, channels, "mean"), _per_channel(image.scale, channels, "scale")
    value = pixels
    if image.channel_order == "bgr" and channels == 3:
        value = tf.reverse(value, axis=[-1])
    moves, scales = any(m != 0 for m in mean), any(s != 1 for s in scale)
    wide = tf.float64 if dtype == tf.float64 else tf.float32
    if not dtype.is_floating:
        if scales or not all(m == int(m) and dtype.min <= -m and 255 - m <= dtype.max for m in mean):
            right = "mean = 128 without" if dtype == tf.int8 else "no `mean` and"
            raise ImportModelError(
                f"The image input is {dtype.name}, which holds whole pixels: write {right} `scale` under [image]."
            )
        wide = tf.int32
    if moves:
        value = tf.cast(value, wide) - np.array(mean).astype(wide.as_numpy_dtype)
    if scales:
        value = tf.cast(value, wide) * tf.constant(scale, wide)
    value = tf.cast(value, dtype)
    if image.is_channels_first(shape):
        value = tf.transpose(value, (0, 3, 1, 2))
    return tf.reshape(value, shape)


def _per_channel(values: tuple[float, ...], channels: int, key: str) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise ImportModelError(f"`{key}` under [image] has {len(values)} values; it takes 1 or {channels}.")
    # A single value stays a scalar, which XLA folds; a vector would stay a broadcast.
    return values if len(set(values)) > 1 else values[:1]


def sound_to_input(samples: Any, audio: AudioSpec, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Compute an input of ``dtype`` and ``shape`` from float32 ``samples`` [batch, length] from -1 to 1.

    Normalises each window and multiplies it by ``scale``, in float32. ``standard`` is (x - mean) / sqrt(variance +
    1e-7), as in transformers' Wav2Vec2FeatureExtractor. Raises ImportModelError if the model takes integers.
    """
    if not dtype.is_floating:
        raise ImportModelError(
            f"The input of sound is {dtype.name}, and [audio] gives floats: wrap the model so that it casts them."
        )
    value = samples
    if audio.normalise == "peak":
        value = tf.math.divide_no_nan(value, tf.reduce_max(tf.abs(value), axis=1, keepdims=True))
    elif audio.normalise == "standard":
        value -= tf.reduce_mean(value, axis=1, keepdims=True)
        value /= tf.sqrt(tf.reduce_mean(tf.square(value), axis=1, keepdims=True) + 1e-7)
    if audio.scale != 1:
        value *= tf.constant(audio.scale, tf.float32)
    return tf.reshape(tf.cast(value, dtype), shape)


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
    image_size: tuple[int, int] = (0, 0)  # Height and width of the images that a segmentation is of.


def find_ending(spec: ModelSpec, fetch: str, count: int) -> Ending:
    """Return the ending of ``fetch``, one of ``count``, or raise ImportModelError where outputs ask for several."""
    endings = {_make_ending(output, name, spec.image) for output, name in _list_outputs(spec, fetch, count)}
    if len(endings) > 1:
        raise ImportModelError(
            f"[[outputs]] asks for different activations, dimensions or normalise on the same fetch {fetch!r}: a fetch "
            "has one of each."
        )
    return endings.pop() if endings else Ending()


def _list_outputs(spec: ModelSpec, fetch: str, count: int) -> Iterator[tuple[OutputSpec, str | None]]:
    """Yield each output of ``fetch``, one of ``count``, and the name that it has for it."""
    for output in spec.outputs:
        for name in output.fetches:
            if name == fetch or (name is None and count == 1):
                yield output, name


def needs_numbers(spec: ModelSpec, fetch: str, count: int) -> bool:
    """Return whether an output needs the numbers for which integers of ``fetch``, one of ``count``, stand."""
    return any(output.kind not in ("raw", "label") for output, _ in _list_outputs(spec, fetch, count))


def dequantise(value: Any, scale: float, zero: int) -> Any:
    """Return the float32 numbers ``(value - zero) * scale`` for which integers stand."""
    return (tf.cast(value, tf.float32) - np.float32(zero)) * np.float32(scale)


def _make_ending(output: OutputSpec, fetch: str | None, image: ImageSpec | None) -> Ending:
    if output.kind == "detection":
        return Ending(output.activation) if fetch == output.scores else Ending()
    if output.kind == "segmentation":
        size = (image.height, image.width) if image else (0, 0)
        return Ending(output.activation, segmentation=True, labels=len(output.labels), image_size=size)
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

    Scores are [batch, height, width, classes], or [batch, classes, height, width] if that alone fits the number of
    labels or the shape of the images. A single class is 1 where its score, after the activation, is more than a half.
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
    axis = _find_class_axis(shape, wanted)
    classes = shape[axis]
    if classes > 255 or (labels and labels != max(classes, 2)):
        raise ImportModelError(
            f"[[outputs]] asks for a segmentation of {fetch!r}, {value.shape}, which has {classes} classes; "
            + (f"it has {labels} labels, and needs {max(classes, 2)}." if labels else "at most 255 are possible.")
        )
    if classes == 1:
        score = tf.squeeze(_apply_activation(value, wanted.activation, fetch), axis)
        return tf.cast(score > 0.5, tf.uint8)
    return tf.cast(tf.argmax(value, axis, output_type=tf.int32), tf.uint8)  # No activation changes the order of scores.


def _find_class_axis(shape: Sequence[int], wanted: Ending) -> int:
    """Return 1 if classes come before the pixels in scores of ``shape``, else 3."""
    _, first, second, last = shape
    fitting = [max(classes, 2) == wanted.labels for classes in (first, last)]
    if fitting[0] != fitting[1]:
        return 1 if fitting[0] else 3
    height, width = wanted.image_size
    return 1 if second * width == last * height and first * width != second * height else 3


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
