"""The scaling of pixels that a graph applies to an image input before its first layer.

The input is followed through ops that keep each channel an affine map of itself. Images of one colour then reveal the
map, however the graph crops, resizes or transposes on the way. Only these ops and constants are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.base.tf import load_graph, reference_session, tf
from builder.importers.graph import MODEL_SCOPE

Values = tuple[float, ...]

_LINEAR = frozenset({
    "Add", "AddV2", "BiasAdd", "Cast", "CheckNumerics", "ConcatV2", "ExpandDims", "Identity", "Neg", "Pack",
    "PreventGradient", "Reshape", "ReverseV2", "Slice", "Split", "Squeeze", "StopGradient", "StridedSlice", "Sub",
    "Transpose", "Unpack",
})  # fmt: skip
_RESIZES = frozenset({
    "ResizeArea", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", "ScaleAndTranslate",
})  # fmt: skip
_IN_THE_FIRST = _RESIZES | {"Div", "FusedBatchNorm", "FusedBatchNormV3", "GatherV2", "RealDiv"}
"""Ops that are affine in their first input if the others are constants."""
_OF_SHAPES = frozenset({"Rank", "Shape", "Size"})

_WHITE = 255.0
_MOST_ELEMENTS = 1 << 25
"""The most elements of a batch of images that is followed."""
_NEAR = 1e-4
_LARGEST_DEVIATION, _LARGEST_MEAN = 5.0, 2.0
"""Pixels of 0..1 have neither a deviation nor a mean beyond these; those of 0..255 have one of them."""


@dataclass(frozen=True)
class InputScaling:
    """A graph's first step on the image input ``feed``: ``pixel * scale + offset``, with a value for each channel.

    ``reverses``: whether channels are reversed before that. ``size``: height and width to which the graph resizes.
    """

    feed: str
    scale: Values
    offset: Values
    reverses: bool = False
    size: tuple[int, int] | None = None

    @property
    def scales(self) -> bool:
        """True if the graph changes the values of pixels."""
        return not np.allclose([*self.scale, *self.offset], [1] * len(self.scale) + [0] * len(self.offset), atol=1e-3)

    @property
    def expects_levels(self) -> bool:
        """True if the constants, read as deviation and mean, are in units of 0..255, not of 0..1."""
        means, deviations = np.divide(self.offset, self.scale), np.divide(1, self.scale)
        return bool(np.abs(deviations).max() > _LARGEST_DEVIATION or np.abs(means).max() > _LARGEST_MEAN)

    def describe_steps(self) -> str:
        """Describe the step in words, such as "divided by 127.5, minus 1"."""
        steps = ["channels reversed"] if self.reverses else []
        steps += [f"resized to {self.size[0]} × {self.size[1]}"] if self.size else []
        if self.scales:
            divided = f"divided by {_format_values(np.divide(1, self.scale))}"
            alike = len(set(self.offset)) == 1
            shift = np.asarray(self.offset) if alike else np.divide(self.offset, self.scale)
            added = f"minus {_format_values(-shift)}" if shift.max() <= 0 else f"plus {_format_values(shift)}"
            both = [divided, added] if alike else [added, divided]
            steps += [step for step in both if step not in ("divided by 1", "minus 0")]
        return ", ".join(steps) or "as it is"


def find_scaling(definition: Any, feed: str, tensor: str) -> InputScaling | None:
    """Find the scaling of ``tensor``, the input ``feed`` (channels last) of a GraphDef with static shapes.

    Returns None where no single affine map of each channel leads to the layers behind.
    """
    graph = load_graph(definition)
    start = graph.get_tensor_by_name(tensor)
    while (readers := start.consumers()) and not any(op.name.startswith(MODEL_SCOPE) for op in readers):
        start = readers[0].outputs[0]  # This skips the steps of [image], which precede the model.
    affine, ends = _follow_input(start)
    if not ends or not start.shape.is_fully_defined() or start.shape.num_elements() > _MOST_ELEMENTS:
        return None
    images = _make_images(start.shape.as_list(), start.dtype.as_numpy_dtype)
    try:
        with reference_session(graph) as session:
            results = [session.run(ends, {start: image}) for image in images]
    except tf.errors.OpError:  # A run of the whole graph reports what is wrong with it.
        return None
    maps = {_fit_channels([np.asarray(result[i], np.float64) for result in results]) for i in range(len(ends))}
    if len(maps) != 1 or (only := maps.pop()) is None:
        return None
    size = next((tuple(t.shape.as_list()[1:3]) for t in affine if t.op.type in _RESIZES), None)
    return InputScaling(feed, *only, size)


def _follow_input(start: Any) -> tuple[list[Any], list[Any]]:
    """Find the tensors that are affine in ``start``, and those of them that a non-affine op reads."""
    varying, affine = {start.ref()}, {start.ref(): start}
    ends: dict[Any, Any] = {}
    for op in start.graph.get_operations():  # Each is after those that it reads.
        read = [i for i, tensor in enumerate(op.inputs) if tensor.ref() in varying]
        if read and op.type == "XlaCallModule":  # Its steps cannot be seen.
            return [], []
        if not read or op.type in _OF_SHAPES or op is start.op or op.name.startswith("fetch/"):
            continue
        varying |= {tensor.ref() for tensor in op.outputs}
        inputs = {op.inputs[i].ref(): op.inputs[i] for i in read}
        alone = (op.type == "Mul" and len(read) == 1) or (op.type in _IN_THE_FIRST and read == [0])
        if (alone or op.type in _LINEAR) and inputs.keys() <= affine.keys():
            affine |= {tensor.ref(): tensor for tensor in op.outputs}
        else:
            ends |= {ref: tensor for ref, tensor in inputs.items() if ref in affine}
    return [*affine.values()], [*ends.values()]


def _make_images(shape: list[int], dtype: Any) -> Iterator[Array]:
    """Yield a black image, then for each channel an image in which it alone is white."""
    yield np.zeros(shape, dtype)
    for channel in np.eye(shape[-1]):
        yield np.broadcast_to(_WHITE * channel, shape).astype(dtype)


def _fit_channels(results: Sequence[Array]) -> tuple[Values, Values, bool] | None:
    """Find scale and offset of each channel, and whether channels are reversed, or None for other maps."""
    rows = [row for result in results if (row := _read_channels(result, len(results) - 1)) is not None]
    if len(rows) < len(results):
        return None
    matrix = (np.stack(rows[1:]) - rows[0]) / _WHITE
    for reverses in (False, True):
        ordered = matrix[::-1] if reverses else matrix
        scale = np.diagonal(ordered)
        if scale.all() and np.allclose(ordered, np.diag(scale), rtol=0, atol=_NEAR * np.abs(scale).min()):
            return _round_values(scale), _round_values(rows[0]), reverses
    return None


def _read_channels(result: Array, count: int) -> Array | None:
    """Read each channel's value if all pixels are equal; channels are last, first, or last in a flat image."""
    item = result[:1]
    if not item.size or item.size % count:
        return None
    layouts = (item.reshape(-1, count), item.reshape(count, -1).T)
    return next((pixels[0] for pixels in layouts if np.allclose(pixels, pixels[0], rtol=_NEAR, atol=_NEAR)), None)


def _round_values(values: Array) -> Values:
    """Round off the digits beyond float32's precision and the sign of -0."""
    return tuple(float(f"{value:.6g}") + 0.0 for value in values)


def _format_values(values: Array) -> str:
    texts = [f"{value + 0.0:.5g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"
