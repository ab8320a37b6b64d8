"""Pixels at computed places: crops of boxes, glimpses, and projective transforms of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite


def rewrite_crop_and_resize(op: Op, image: Any, boxes: Any, box_index: Any, crop_size: Any) -> Any:
    """Crops of a constant size, bilinear or nearest, of boxes that may be fed.

    To the bit as TensorFlow, until products and sums are fused when it is compiled.
    """
    rows, columns = (int(n) for n in op.get_constant(3))
    batch, height, width, _ = image.shape
    y = _locate_pixels(boxes[:, 0], boxes[:, 2], height, rows)[:, :, None]
    x = _locate_pixels(boxes[:, 1], boxes[:, 3], width, columns)[:, None, :]
    inside = (y >= 0.0) & (y <= float(height - 1)) & (x >= 0.0) & (x <= float(width - 1))
    picture = tf.clip_by_value(box_index, 0, batch - 1)[:, None, None]
    read = _make_reader(tf.cast(image, tf.float32), picture)
    if op.get_attribute("method") == "nearest":
        crops = read(_round_half_away(y), _round_half_away(x))
    else:
        top, bottom, left, right = tf.floor(y), tf.math.ceil(y), tf.floor(x), tf.math.ceil(x)
        down, across = (y - top)[..., None], (x - left)[..., None]
        upper = read(top, left) + (read(top, right) - read(top, left)) * across
        lower = read(bottom, left) + (read(bottom, right) - read(bottom, left)) * across
        crops = upper + (lower - upper) * down
    return tf.where(inside[..., None], crops, float(op.get_attribute("extrapolation_value")))


def _locate_pixels(low: Any, high: Any, length: int, wanted: int) -> Any:
    """[boxes, wanted]: where each pixel of a crop lies in the image, in its pixels."""
    last = float(length - 1)
    if wanted == 1:
        return (0.5 * (low + high) * last)[:, None]
    step = (high - low) * last / float(wanted - 1)
    return (low * last)[:, None] + tf.range(wanted, dtype=tf.float32)[None, :] * step[:, None]


def _round_half_away(at: Any) -> Any:
    """The nearest integer, halves away from 0 as in C."""
    whole = tf.floor(tf.abs(at))
    return tf.sign(at) * (whole + tf.cast(tf.abs(at) - whole >= 0.5, at.dtype))


def _make_reader(images: Any, picture: Any) -> Callable[[Any, Any], Any]:
    """A function of (y, x), whole numbers, to the pixels there; places outside give the nearest pixel."""
    _, height, width, _ = images.shape
    flat = tf.reshape(images, (-1, images.shape[3]))

    def read(y: Any, x: Any) -> Any:
        row = tf.cast(tf.clip_by_value(y, 0.0, float(height - 1)), tf.int32)
        column = tf.cast(tf.clip_by_value(x, 0.0, float(width - 1)), tf.int32)
        return tf.gather(flat, (picture * height + row) * width + column)

    return read


def rewrite_projective_transform(
    op: Op, images: Any, transforms: Any, output_shape: Any, fill_value: Any = None
) -> Any:
    """All fill modes, to a constant size; the transforms may be fed.

    To the bit as TensorFlow, until products and sums are fused when it is compiled: a place right between two pixels
    may then fall to the other one.
    """
    rows, columns = (int(n) for n in op.get_constant(2))
    batch, height, width, _ = images.shape
    nearest = op.get_attribute("interpolation") == "NEAREST"
    dtype = images.dtype if nearest else tf.float32
    fill = tf.cast(tf.cast(0.0 if fill_value is None else fill_value, images.dtype), dtype)
    x, y = tf.range(columns, dtype=tf.float32)[None, None, :], tf.range(rows, dtype=tf.float32)[None, :, None]
    terms = [transforms[:, i][:, None, None] for i in range(8)]
    depth = terms[6] * x + terms[7] * y + 1.0
    mode = _MODES[op.get_attribute("fill_mode")]
    across = mode((terms[0] * x + terms[1] * y + terms[2]) / depth, width)
    down = mode((terms[3] * x + terms[4] * y + terms[5]) / depth, height)
    read = _make_reader(tf.cast(images, dtype), tf.range(batch)[:, None, None])

    def filled(at_y: Any, at_x: Any) -> Any:
        inside = (at_y >= 0.0) & (at_y < float(height)) & (at_x >= 0.0) & (at_x < float(width))
        return tf.where(inside[..., None], read(at_y, at_x), fill)

    if nearest:
        result = filled(_round_half_away(down), _round_half_away(across))
    else:
        top, left = tf.floor(down), tf.floor(across)
        bottom, right = top + 1.0, left + 1.0
        to_left, to_right = (right - across)[..., None], (across - left)[..., None]
        upper = to_left * filled(top, left) + to_right * filled(top, right)
        lower = to_left * filled(bottom, left) + to_right * filled(bottom, right)
        result = (bottom - down)[..., None] * upper + (down - top)[..., None] * lower
    return tf.cast(tf.where(tf.equal(depth, 0.0)[..., None], fill, result), images.dtype)


def _keep_places(at: Any, length: int) -> Any:
    return at


def _clip_places(at: Any, length: int) -> Any:
    return tf.clip_by_value(at, 0.0, float(length - 1))


def _reflect_places(at: Any, length: int) -> Any:
    """dcba|abcd|dcba."""
    if length <= 1:
        return _clip_places(at, length)
    twice = 2.0 * length
    below = twice * _drop_fraction(-at / twice) + at
    below = tf.where(below < -float(length), below + twice, -below - 1.0)
    above = at - twice * _drop_fraction(at / twice)
    above = tf.where(above >= float(length), twice - above - 1.0, above)
    return _clip_places(tf.where(at < 0.0, below, tf.where(at > float(length - 1), above, at)), length)


def _wrap_places(at: Any, length: int) -> Any:
    """abcd|abcd|abcd."""
    if length <= 1:
        return _clip_places(at, length)
    below = at + length * (_drop_fraction(-at / float(length - 1)) + 1.0)
    above = at - length * _drop_fraction(at / float(length - 1))
    return _clip_places(tf.where(at < 0.0, below, tf.where(at > float(length - 1), above, at)), length)


def _drop_fraction(x: Any) -> Any:
    """Without its fraction, as C converts to an integer."""
    return tf.sign(x) * tf.floor(tf.abs(x))


_MODES = {"CONSTANT": _keep_places, "NEAREST": _clip_places, "REFLECT": _reflect_places, "WRAP": _wrap_places}

REWRITES: Mapping[str, Rewrite] = {
    "CropAndResize": rewrite_crop_and_resize,
    "ImageProjectiveTransformV2": rewrite_projective_transform,
    "ImageProjectiveTransformV3": rewrite_projective_transform,
}
