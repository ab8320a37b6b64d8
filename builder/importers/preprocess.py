"""The steps of the spec that are compiled in before the model: from pixels or sound to its input."""

from __future__ import annotations

from typing import Any

from builder.base.errors import ImportModelError
from builder.base.tf import tf
from builder.config import AudioSpec, ImageSpec


def image_to_input(pixels: Any, image: ImageSpec, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Compute an input of ``dtype`` and ``shape`` from uint8 ``pixels`` [batch, height, width, channels], RGB or grey.

    Computes ``(pixel - mean) * scale`` in float32 (float64 for a float64 model), channels in the model's order.
    Raises ImportModelError if an integer model is given a mean or scale.
    """
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
