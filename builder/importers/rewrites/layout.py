"""Layouts that TensorFlow has no CPU kernels for: channels before rows and columns, and dilated depthwise taps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.tf import tf
from builder.importers.rewrites.op import Op, Rewrite

_DEPTHWISE = "DepthwiseConv2dNative"
_LAST = {"NCHW": "NHWC", "NCDHW": "NDHWC"}


@dataclass(frozen=True)
class _Signature:
    """An op's inputs, in order, its attributes that go by axis, and its other ones."""

    inputs: tuple[str, ...]
    by_axis: tuple[str, ...] = ("strides", "dilations")
    others: tuple[str, ...] = ("padding",)


_FORWARD = ("input", "filter")
_BACKWARD = ("input_sizes", "filter", "out_backprop")
_WINDOW = ("ksize", "strides")
_PADDED = ("strides", "dilations", "explicit_paddings")
_SIGNATURES = {
    "AvgPool": _Signature(("value",), _WINDOW),
    "AvgPool3D": _Signature(("input",), _WINDOW),
    "Conv2D": _Signature(_FORWARD, _PADDED),
    "Conv2DBackpropInput": _Signature(_BACKWARD, _PADDED),
    "Conv3D": _Signature(_FORWARD),
    "Conv3DBackpropInputV2": _Signature(_BACKWARD),
    "DepthToSpace": _Signature(("input",), (), ("block_size",)),
    _DEPTHWISE: _Signature(_FORWARD, _PADDED),
    "MaxPool": _Signature(("input",), (*_WINDOW, "explicit_paddings")),
    "MaxPool3D": _Signature(("input",), _WINDOW),
    "SpaceToDepth": _Signature(("input",), (), ("block_size",)),
}


def rewrite_channels_last(op: Op, *inputs: Any) -> Any:
    """Put the channels last, between two transpositions."""
    layout, signature = op.get_attribute("data_format"), _SIGNATURES[op.type]
    taps = {name: op.get_attribute(name) for name in signature.by_axis}
    dilated = op.type == _DEPTHWISE and _is_dilated(taps["dilations"])
    rank = len(layout)
    order = [0, *range(2, rank), 1] if layout in _LAST else list(range(rank))
    arguments: dict[str, Any] = {}
    for number, (name, tensor) in enumerate(zip(signature.inputs, inputs, strict=True)):
        if name == "input_sizes":
            arguments[name] = op.get_constant(number)[order] if op.get_constant(number).size == rank else tensor
        else:
            arguments[name] = tensor if name == "filter" else tf.transpose(tensor, order)
    taps = {name: _permute_values(values, order) for name, values in taps.items()}
    if dilated:
        arguments["filter"] = _dilate_taps(arguments["filter"], taps["dilations"][1:3])
        taps["dilations"] = [1, 1, 1, 1]
    others = {name: op.get_attribute(name) for name in signature.others}
    result = getattr(tf.raw_ops, op.type)(**arguments, **taps, **others, data_format=_LAST.get(layout, layout))
    return tf.transpose(result, np.argsort(order))


def _permute_values(values: Sequence[int], order: Sequence[int]) -> list[int]:
    """Put one number for each axis, or two (paddings), in the new order of the axes."""
    each = len(values) // len(order)
    return [number for axis in order for number in values[axis * each : (axis + 1) * each]]


def _dilate_taps(taps: Any, dilations: Sequence[int]) -> Any:
    """Put zeros between taps [rows, columns, channels, multiplier]."""
    rows, columns, *rest = taps.shape
    down, across = dilations
    apart = tf.pad(taps[:, None, :, None], [[0, 0], [0, down - 1], [0, 0], [0, across - 1], [0, 0], [0, 0]])
    together = tf.reshape(apart, (rows * down, columns * across, *rest))
    return together[: (rows - 1) * down + 1, : (columns - 1) * across + 1]


def choose_cpu_rewrite(node: Any) -> Rewrite | None:
    """Return the rewrite of a node that XLA compiles, and for which TensorFlow has no kernel on a CPU, or None."""
    if node.op not in _SIGNATURES:
        return None
    dilated = node.op == _DEPTHWISE and _is_dilated(node.attr["dilations"].list.i)
    return rewrite_channels_last if dilated or node.attr["data_format"].s.decode() in _LAST else None


def _is_dilated(dilations: Sequence[int]) -> bool:
    return max(dilations, default=1) > 1
