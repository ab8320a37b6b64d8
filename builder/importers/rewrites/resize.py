"""Resizing images: each axis is a linear map whose weights are constants, so an image is resized axis by axis.

The weights are TensorFlow's own: its kernel resizes the unit images of one axis, here, at build time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.base.tf import reference_session, tf
from builder.importers.rewrites.op import NotRewritten, Op, Rewrite

Weights = npt.NDArray[np.float32]

_MOST_TAPS = 8
"""Up to here an axis is a sum of that many gathers, which XLA fuses into one expression; above, it is a loop."""


def rewrite_resize(op: Op, images: Any, size: Any) -> Any:
    """Any numeric [batch, height, width, channels] to float32, of constant size: sums of weighted pixels.

    Off by a few units in the last place of the largest pixel: TensorFlow sums in another order.
    """
    rows, columns = _read_size(op)
    options = {name: op.get_attribute(name) for name in _OPTIONS[op.type]}
    kernel = getattr(tf.raw_ops, op.type)

    def axis(length: int, wanted: int) -> Weights:
        return _compute_weights(length, lambda units: kernel(images=units, size=[wanted, 1], **options))

    return _resize_both_axes(images, axis(images.shape[1], rows), axis(images.shape[2], columns))


def rewrite_scale_and_translate(op: Op, images: Any, size: Any, scale: Any, translation: Any) -> Any:
    """The same, of constant size, scale and translation."""
    rows, columns = _read_size(op)
    scales, offsets = op.get_constant(2), op.get_constant(3)
    kernel = tf.raw_ops.ScaleAndTranslate

    def axis(length: int, wanted: int, number: int) -> Weights:
        along = {"scale": [scales[number], 1.0], "translation": [offsets[number], 0.0]}
        options = {name: op.get_attribute(name) for name in ("kernel_type", "antialias")}
        return _compute_weights(length, lambda units: kernel(images=units, size=[wanted, 1], **along, **options))

    return _resize_both_axes(images, axis(images.shape[1], rows, 0), axis(images.shape[2], columns, 1))


_OPTIONS = {"ResizeBicubic": ("align_corners", "half_pixel_centers"), "ResizeArea": ("align_corners",)}


def _read_size(op: Op) -> tuple[int, int]:
    rows, columns = (int(n) for n in op.get_constant(1))
    return rows, columns


def _compute_weights(length: int, kernel: Any) -> Weights:
    """[wanted, length]: what ``kernel`` makes of ``length`` images of one column, each with one pixel set."""
    units = np.eye(length, dtype=np.float32).reshape(1, length, 1, length)
    with tf.Graph().as_default() as graph:
        resized = kernel(tf.constant(units))
        with reference_session(graph) as session:
            return np.asarray(session.run(resized)[0, :, 0, :])


def _resize_both_axes(images: Any, rows: Weights, columns: Weights) -> Any:
    """Rows first where that makes the image smaller, for columns take longer: their pixels lie apart."""
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
    result = terms[0]
    for term in terms[1:]:
        result += term
    return result


def rewrite_resize_bilinear(op: Op, images: Any, size: Any) -> Any:
    """Left to XLA where it is right. XLA reads wrong pixels where a scale is not exact (threefold, say).

    To the bit as TensorFlow, until products and sums are fused when it is compiled.
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
    """Pixels of the source for one of the result, rounded as TensorFlow's kernels and XLA's round it."""
    if align and wanted > 1:
        return np.float32(length - 1) / np.float32(wanted - 1)
    return np.float32(length) / np.float32(wanted)


def _xla_slips(length: int, wanted: int, align: bool, half: bool) -> bool:
    """Whether the first source pixel of some result pixel depends on how a product is rounded.

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


REWRITES: Mapping[str, Rewrite] = {
    "ResizeArea": rewrite_resize,
    "ResizeBicubic": rewrite_resize,
    "ResizeBilinear": rewrite_resize_bilinear,
    "ScaleAndTranslate": rewrite_scale_and_translate,
}
