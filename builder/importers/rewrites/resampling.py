"""Pixels at computed places: resized images, crops of boxes, glimpses, and projective transforms."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.base.tf import reference_session, tf
from builder.importers.rewrites.op import NotRewritten, Op, rewrites

Weights = npt.NDArray[np.float32]

_MOST_TAPS = 8
"""Up to here an axis is a sum of that many gathers, which XLA fuses into one expression; above, it is a loop."""
_OPTIONS = {"ResizeBicubic": ("align_corners", "half_pixel_centers"), "ResizeArea": ("align_corners",)}


@rewrites(*_OPTIONS)
def rewrite_resize(op: Op, images: Any, size: Any) -> Any:
    """Sum weighted pixels of any numeric [batch, height, width, channels] to float32, of constant size.

    Off by a few units in the last place of the largest pixel: TensorFlow sums in another order.
    """
    rows, columns = _read_size(op)
    options = {name: op.get_attribute(name) for name in _OPTIONS[op.type]}
    kernel = getattr(tf.raw_ops, op.type)

    def axis(length: int, wanted: int) -> Weights:
        return _compute_weights(length, lambda units: kernel(images=units, size=[wanted, 1], **options))

    return _resize_both_axes(images, axis(images.shape[1], rows), axis(images.shape[2], columns))


@rewrites("ScaleAndTranslate")
def rewrite_scale_and_translate(op: Op, images: Any, size: Any, scale: Any, translation: Any) -> Any:
    """Sum weighted pixels as for ResizeArea, with constant size, scale and translation."""
    rows, columns = _read_size(op)
    scales, offsets = op.get_constant(2), op.get_constant(3)
    kernel = tf.raw_ops.ScaleAndTranslate

    def axis(length: int, wanted: int, number: int) -> Weights:
        along = {"scale": [scales[number], 1.0], "translation": [offsets[number], 0.0]}
        options = {name: op.get_attribute(name) for name in ("kernel_type", "antialias")}
        return _compute_weights(length, lambda units: kernel(images=units, size=[wanted, 1], **along, **options))

    return _resize_both_axes(images, axis(images.shape[1], rows, 0), axis(images.shape[2], columns, 1))


def _read_size(op: Op) -> tuple[int, int]:
    rows, columns = (int(n) for n in op.get_constant(1))
    return rows, columns


def _compute_weights(length: int, kernel: Any) -> Weights:
    """Return as [wanted, length] what ``kernel`` makes of ``length`` images of one column, each with one pixel set."""
    units = np.eye(length, dtype=np.float32).reshape(1, length, 1, length)
    with tf.Graph().as_default() as graph:
        resized = kernel(tf.constant(units))
        with reference_session(graph) as session:
            return np.asarray(session.run(resized)[0, :, 0, :])


def _resize_both_axes(images: Any, rows: Weights, columns: Weights) -> Any:
    """Resize rows first where that makes the image smaller, as columns, whose pixels lie apart, take longer."""
    images = tf.cast(images, tf.float32)
    if rows.shape[0] < rows.shape[1]:
        return _resize_axis(_resize_axis(images, rows, 1), columns, 2)
    return _resize_axis(_resize_axis(images, columns, 2), rows, 1)


def _resize_axis(images: Any, weights: Weights, axis: int) -> Any:
    wanted, length = weights.shape
    if wanted == length and np.array_equal(weights, np.eye(length)):
        return images
    taps = max(1, int(np.count_nonzero(weights, axis=1).max(initial=0)))
    # The taps of a row in ascending order; rows with fewer are filled with pixels of weight 0.
    at = np.sort(np.argsort(weights == 0.0, axis=1, kind="stable")[:, :taps], axis=1)
    shares = np.take_along_axis(weights, at, axis=1)
    before, after = [1] * axis, [1] * (3 - axis)
    if taps > _MOST_TAPS:
        # In two halves: XLA would fuse a sum that is read once into its reader, and compute it again for each tap.
        halves = (slice(taps // 2), slice(taps // 2, taps))
        windows = [
            tf.gather(images, at[:, half], axis=axis) * shares[:, half].reshape(*before, wanted, -1, *after)
            for half in halves
        ]
        return tf.reduce_sum(windows[0], axis=axis + 1) + tf.reduce_sum(windows[1], axis=axis + 1)
    terms = [
        tf.gather(images, at[:, t], axis=axis) * shares[:, t].reshape(*before, wanted, *after) for t in range(taps)
    ]
    return functools.reduce(operator.add, terms)


@rewrites("ResizeBilinear")
def rewrite_resize_bilinear(op: Op, images: Any, size: Any) -> Any:
    """Leave it to XLA where XLA is right: it reads wrong pixels where a scale is not exact (threefold, say).

    The same bits as TensorFlow's, until products and sums are fused when it is compiled.
    """
    try:
        rows, columns = _read_size(op)
    except NotRewritten:  # XLA may know more, and says so where it does not
        return None
    align, half = op.get_attribute("align_corners"), op.get_attribute("half_pixel_centers")
    axes = ((images.shape[1], rows), (images.shape[2], columns))
    if not any(_xla_slips(length, wanted, align, half) for length, wanted in axes):
        return None
    images = tf.cast(images, tf.float32)
    return _interpolate_axis(_interpolate_axis(images, columns, align, half, 2), rows, align, half, 1)


def _compute_scale(length: int, wanted: int, align: bool) -> np.float32:
    """Return the pixels of the source for one of the result, rounded as TensorFlow's kernels and XLA's round it."""
    if align and wanted > 1:
        return np.float32(length - 1) / np.float32(wanted - 1)
    return np.float32(length) / np.float32(wanted)


def _xla_slips(length: int, wanted: int, align: bool, half: bool) -> bool:
    """Return whether the first source pixel of some result pixel depends on how a product is rounded.

    XLA computes it twice, once for the weights and once for the gather, each in a loop of its own, and LLVM may fuse
    product and difference in one of them alone: then a pixel is read that the weights are not for.
    """
    scale, at = _compute_scale(length, wanted, align), np.arange(wanted, dtype=np.float32)
    middle = np.float32(0.5)
    position = at + middle if half else at
    rounded = position * scale
    exact = position.astype(np.float64) * np.float64(scale)
    if half:
        steps = np.ceil(rounded - np.float32(1) - middle), np.ceil((exact - 1).astype(np.float32) - middle)
    else:
        steps = np.ceil(rounded - np.float32(1)), np.ceil((exact - 1).astype(np.float32))
    exactly = np.ceil(exact - (1.5 if half else 1.0))
    return any(not np.array_equal(step, exactly) for step in steps)


def _interpolate_axis(images: Any, wanted: int, align: bool, half: bool, axis: int) -> Any:
    length = images.shape[axis]
    at, scale = np.arange(wanted, dtype=np.float32), _compute_scale(length, wanted, align)
    position = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    first = np.floor(position)
    low = np.maximum(first, 0).astype(np.int32)
    high = np.minimum(np.ceil(position), length - 1).astype(np.int32)
    shape = [1, 1, 1, 1]
    shape[axis] = wanted
    share = (position - first).reshape(shape)
    start = tf.gather(images, low, axis=axis)
    return start + (tf.gather(images, high, axis=axis) - start) * share


@rewrites("CropAndResize")
def rewrite_crop_and_resize(op: Op, image: Any, boxes: Any, box_index: Any, crop_size: Any) -> Any:
    """Crop boxes, which may be fed, to a constant size, bilinear or nearest.

    The same bits as TensorFlow's, until products and sums are fused when it is compiled.
    """
    rows, columns = (int(n) for n in op.get_constant(3))
    batch, height, width, _ = image.shape
    y = _locate_pixels(boxes[:, 0], boxes[:, 2], height, rows)[:, :, None]
    x = _locate_pixels(boxes[:, 1], boxes[:, 3], width, columns)[:, None, :]
    inside = (y >= 0.0) & (y <= float(height - 1)) & (x >= 0.0) & (x <= float(width - 1))
    number = tf.clip_by_value(box_index, 0, batch - 1)[:, None, None]
    read = _make_reader(tf.cast(image, tf.float32), number)
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
    """Return as [boxes, wanted] where each pixel of a crop lies in the image, in its pixels."""
    last = float(length - 1)
    if wanted == 1:
        return (0.5 * (low + high) * last)[:, None]
    step = (high - low) * last / float(wanted - 1)
    return (low * last)[:, None] + tf.range(wanted, dtype=tf.float32)[None, :] * step[:, None]


def _round_half_away(at: Any) -> Any:
    """Round to the nearest integer, halves away from 0 as in C."""
    whole = tf.floor(tf.abs(at))
    return tf.sign(at) * (whole + tf.cast(tf.abs(at) - whole >= 0.5, at.dtype))


def _make_reader(images: Any, number: Any) -> Callable[[Any, Any], Any]:
    """Make a function from whole numbers (y, x) to the pixels there; places outside give the nearest pixel."""
    _, height, width, _ = images.shape
    flat = tf.reshape(images, (-1, images.shape[3]))

    def read(y: Any, x: Any) -> Any:
        row = tf.cast(tf.clip_by_value(y, 0.0, float(height - 1)), tf.int32)
        column = tf.cast(tf.clip_by_value(x, 0.0, float(width - 1)), tf.int32)
        return tf.gather(flat, (number * height + row) * width + column)

    return read


@rewrites("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def rewrite_projective_transform(
    op: Op, images: Any, transforms: Any, output_shape: Any, fill_value: Any = None
) -> Any:
    """Transform images to a constant size, in all fill modes; the transforms may be fed.

    The same bits as TensorFlow's, until products and sums are fused when it is compiled: a place right between two
    pixels may then fall to the other one.
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


def _clip_places(at: Any, length: int) -> Any:
    return tf.clip_by_value(at, 0.0, float(length - 1))


def _reflect_places(at: Any, length: int) -> Any:
    """Continue an axis as dcba|abcd|dcba."""
    if length <= 1:
        return _clip_places(at, length)
    twice = 2.0 * length
    below = twice * _drop_fraction(-at / twice) + at
    below = tf.where(below < -float(length), below + twice, -below - 1.0)
    above = at - twice * _drop_fraction(at / twice)
    above = tf.where(above >= float(length), twice - above - 1.0, above)
    return _clip_places(tf.where(at < 0.0, below, tf.where(at > float(length - 1), above, at)), length)


def _wrap_places(at: Any, length: int) -> Any:
    """Continue an axis as abcd|abcd|abcd."""
    if length <= 1:
        return _clip_places(at, length)
    below = at + length * (_drop_fraction(-at / float(length - 1)) + 1.0)
    above = at - length * _drop_fraction(at / float(length - 1))
    return _clip_places(tf.where(at < 0.0, below, tf.where(at > float(length - 1), above, at)), length)


def _drop_fraction(x: Any) -> Any:
    """Convert to whole numbers as C does."""
    return tf.sign(x) * tf.floor(tf.abs(x))


_MODES: Mapping[str, Callable[[Any, int], Any]] = {
    "CONSTANT": lambda at, length: at, "NEAREST": _clip_places, "REFLECT": _reflect_places, "WRAP": _wrap_places,
}  # fmt: skip
