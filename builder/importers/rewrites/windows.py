"""Windows that move over an image or a volume: pooling with places, dilation, patches, and 3-D convolutions."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import NotRewritten, Op, rewrites

_MOST = 1024
"""Places of a window: each is some nodes of the graph."""


@dataclass(frozen=True)
class Axis:
    """An axis that a window moves along: lengths in and out, the window's ``size``, and the padding ``before``."""

    length: int
    size: int
    stride: int
    rate: int
    wanted: int
    before: int

    @property
    def after(self) -> int:
        """The padding after the axis, so that the last window fits; below 0 where some of the input is not read."""
        return (self.wanted - 1) * self.stride + (self.size - 1) * self.rate + 1 - self.before - self.length


def _make_axes(
    op: Op, lengths: Sequence[int], sizes: Sequence[int], strides: Sequence[int], rates: Sequence[int]
) -> list[Axis]:
    if int(np.prod(sizes)) > _MOST:
        raise NotRewritten(f"its window has {int(np.prod(sizes))} places, and {_MOST} is the most")
    axes = []
    for length, size, stride, rate in zip(lengths, sizes, strides, rates, strict=True):
        span = (size - 1) * rate + 1
        if op.get_attribute("padding") == "SAME":
            wanted = -(-length // stride)
            before = max((wanted - 1) * stride + span - length, 0) // 2
        else:
            wanted, before = max((length - span) // stride + 1, 0), 0
        axes.append(Axis(length, size, stride, rate, wanted, before))
    return axes


def _pad_around(x: Any, axes: Sequence[Axis], value: Any) -> Any:
    """Put ``value`` around [batch, axes..., channels]."""
    around = [(0, 0), *((axis.before, max(axis.after, 0)) for axis in axes), (0, 0)]
    return tf.pad(x, around, constant_values=value)


def _iterate_places(axes: Sequence[Axis]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yield each place of a window, and the slices of the padded input that it takes over all windows."""
    for place in product(*(range(axis.size) for axis in axes)):
        starts = [at * axis.rate for at, axis in zip(place, axes, strict=True)]
        ends = [start + (axis.wanted - 1) * axis.stride + 1 for start, axis in zip(starts, axes, strict=True)]
        steps = [axis.stride for axis in axes]
        yield place, (slice(None), *map(slice, starts, ends, steps))


@rewrites("MaxPoolWithArgmax")
def rewrite_max_pool_with_argmax(op: Op, x: Any) -> Any:
    """Compare place by place, so that the first of equal values counts, as in TensorFlow. The same bits."""
    batch, height, width, channels = x.shape
    _, *sizes, depth = op.get_attribute("ksize")
    _, *strides, _ = op.get_attribute("strides")
    if depth != 1 or op.get_attribute("ksize")[0] != 1:
        raise NotRewritten("it pools over the batch or the channels")
    axes = _make_axes(op, (height, width), sizes, strides, (1, 1))
    lowest = x.dtype.min if x.dtype.is_integer else -np.inf
    values = _pad_around(x, axes, tf.cast(lowest, x.dtype))
    numbers = np.full((1, *(a.before + a.length + max(a.after, 0) for a in axes), channels), -1, np.int64)
    rows, columns = axes
    inside = np.arange(height * width * channels).reshape(1, height, width, channels)
    numbers[:, rows.before : rows.before + height, columns.before : columns.before + width] = inside
    (_, first), *others = _iterate_places(axes)
    best, index = values[first], tf.broadcast_to(numbers[first], tf.shape(values[first]))
    for _, at in others:
        # A window always holds some pixel of the image; until it has come, the padding's number -1 is there.
        better = (numbers[at] >= 0) & ((values[at] > best) | (index < 0))
        best, index = tf.where(better, values[at], best), tf.where(better, numbers[at], index)
    if op.get_attribute("include_batch_in_index"):
        index += np.arange(batch).reshape(-1, 1, 1, 1) * (height * width * channels)
    return best, tf.cast(index, op.get_attribute("Targmax"))


@rewrites("Dilation2D")
def rewrite_dilation(op: Op, x: Any, kernel: Any) -> Any:
    """Take the largest of pixel plus kernel over a window; the padding never counts. The same bits."""
    height, width, _ = kernel.shape
    _, *strides, _ = op.get_attribute("strides")
    _, *rates, _ = op.get_attribute("rates")
    axes = _make_axes(op, x.shape[1:3], (height, width), strides, rates)
    values = _pad_around(x, axes, tf.cast(x.dtype.min, x.dtype))
    there = np.zeros((1, *(axis.before + axis.length + max(axis.after, 0) for axis in axes), 1), bool)
    rows, columns = axes
    there[:, rows.before : rows.before + rows.length, columns.before : columns.before + columns.length] = True
    lowest = tf.cast(x.dtype.min, x.dtype)
    sums = [tf.where(there[at], values[at] + kernel[place], lowest) for place, at in _iterate_places(axes)]
    return functools.reduce(tf.maximum, sums)


@rewrites("ExtractVolumePatches")
def rewrite_volume_patches(op: Op, x: Any) -> Any:
    """Put each window's values side by side, as channels. The same bits."""
    _, *sizes, _ = op.get_attribute("ksizes")
    _, *strides, _ = op.get_attribute("strides")
    axes = _make_axes(op, x.shape[1:4], sizes, strides, (1, 1, 1))
    # Strides may leave some of the input out. With SAME, TensorFlow leaves half of that out before the first window.
    skipped = [max(-axis.after, 0) // 2 if op.get_attribute("padding") == "SAME" else 0 for axis in axes]
    x = x[:, skipped[0] :, skipped[1] :, skipped[2] :]
    axes = [replace(axis, length=axis.length - gone) for axis, gone in zip(axes, skipped, strict=True)]
    values = _pad_around(x, axes, tf.cast(0, x.dtype))
    return tf.concat([values[at] for _, at in _iterate_places(axes)], axis=4)


@rewrites("Conv3D")
def rewrite_conv3d(op: Op, volumes: Any, kernel: Any) -> Any:
    """Convolve slices in 2-D, with those that one result needs side by side in its channels.

    It is 1.3 to 4.5 times as fast, and takes as many times the input's memory as the kernel is deep. It does so for
    float32 and constant weights, without dilation and groups; others run as XLA compiles them, as do kernels that are
    deep only (3 x 1 x 1).
    """
    depth, taps = volumes.shape[1], kernel.shape[0]
    plain = (
        op.get_attribute("data_format") == "NDHWC"
        and set(op.get_attribute("dilations")) == {1}
        and volumes.dtype == tf.float32
    )
    only_deep = taps > 1 and kernel.shape[1] == kernel.shape[2] == 1
    if not plain or only_deep or volumes.shape[4] != kernel.shape[3] or 0 in volumes.shape:
        return None
    try:
        weights = op.get_constant(1)
    except NotRewritten:
        return None
    _, stride, *strides, _ = op.get_attribute("strides")
    same = op.get_attribute("padding") == "SAME"
    count = -(-depth // stride) if same else (depth - taps) // stride + 1
    if same:
        around = max(0, (count - 1) * stride + taps - depth)
        volumes = tf.pad(volumes, [[0, 0], [around // 2, around - around // 2], [0, 0], [0, 0], [0, 0]])
    slices = [volumes[:, tap : tap + (count - 1) * stride + 1 : stride] for tap in range(taps)]
    joined = tf.concat(slices, -1)
    batch, _, *sides = joined.shape
    side_by_side = weights.transpose(1, 2, 0, 3, 4).reshape(*weights.shape[1:3], -1, weights.shape[4])
    images = tf.reshape(joined, (batch * count, *sides))
    result = tf.nn.conv2d(images, tf.constant(side_by_side), strides, "SAME" if same else "VALID")
    return tf.reshape(result, (batch, count, *result.shape[1:]))
