"""What the spec compiles into the graph: pixels to the model's input, raw scores to probabilities."""

from __future__ import annotations

from typing import Any

from builder.errors import ImportModelError
from builder.importers.tf import tensorflow
from builder.spec import Activation, ImageInput


def image_to_input(pixels: Any, image: ImageInput, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Model input of ``dtype`` and ``shape`` from uint8 ``pixels`` [batch, height, width, channels], RGB or grey.

    Computes ``(pixel - mean) * scale`` in float32 (float64 for a float64 model), channels in the model's order.
    Raises ImportModelError if an integer model is given a mean or scale.
    """
    tf = tensorflow()
    channels = image.channels
    mean, scale = _per_channel(image.mean, channels, "mean"), _per_channel(image.scale, channels, "scale")
    value = pixels
    if image.channel_order == "bgr" and channels == 3:
        value = tf.reverse(value, axis=[-1])
    plain = all(m == 0 for m in mean) and all(s == 1 for s in scale)
    if not plain and not dtype.is_floating:
        raise ImportModelError(
            f"The image input is {dtype.name}, so the model takes pixels as they are: "
            "remove `mean` and `scale` under [image]."
        )
    if not plain:
        wide = tf.float64 if dtype == tf.float64 else tf.float32
        value = tf.cast(value, wide)
        if any(m != 0 for m in mean):
            value = value - tf.constant(mean, wide)
        if any(s != 1 for s in scale):
            value = value * tf.constant(scale, wide)
    return tf.reshape(tf.cast(value, dtype), shape)


def _per_channel(values: tuple[float, ...], channels: int, key: str) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise ImportModelError(f"`{key}` under [image] has {len(values)} values; it takes 1 or {channels}.")
    # One value stays a scalar: XLA folds it where a vector would stay a broadcast.
    return values if len(set(values)) > 1 else values[:1]


def activate(scores: Any, activation: Activation, fetch: str) -> Any:
    """``scores`` through softmax over the last axis, or sigmoid; floating point only."""
    tf = tensorflow()
    if activation == "none":
        return scores
    if not scores.dtype.is_floating:
        raise ImportModelError(
            f"[[outputs]] asks for {activation} on {fetch!r}, which is {scores.dtype.name}; it needs floating point."
        )
    if activation == "softmax" and scores.shape.rank == 0:
        raise ImportModelError(f"[[outputs]] asks for softmax on {fetch!r}, which is a scalar.")
    return tf.nn.softmax(scores) if activation == "softmax" else tf.sigmoid(scores)
