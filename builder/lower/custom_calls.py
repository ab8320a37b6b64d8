"""Custom calls to coldforge's own steps, as the rewrites write them (``builder/importers/rewrites/steps.py``).

The steps' sizes come from the shapes that XLA compiled, and only plain numbers from the call's text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from builder.errors import LowerError
from builder.importers.rewrites.steps import COMBINED_NMS, NMS
from builder.lower import shapes
from builder.lower.program import Step
from builder.lower.steps import Buffer, CombinedNmsStep, NmsStep


@dataclass(frozen=True)
class Tensor:
    """An operand or a result: row-major, of the dtype that the step has there."""

    dims: tuple[int, ...]
    buffer: Buffer


@dataclass(frozen=True)
class Call:
    """A custom call. ``scratch``: makes memory for a step of so many bytes."""

    name: str
    config: Mapping[str, float | bool]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scratch: Callable[[int], Buffer]


def tensor(shape: Any, buffer: Buffer) -> tuple[str, Tensor]:
    """The dtype of a ShapeProto, and the Tensor. Raises LowerError where it is not row-major."""
    if not shapes.is_row_major(shape):
        raise LowerError("a step of coldforge's own has dimensions in another order; report this model.")
    return shapes.dtype(shape), Tensor(tuple(shape.dimensions), buffer)


def step_of(
    target: str,
    name: str,
    config: bytes,
    inputs: list[tuple[str, Tensor]],
    outputs: list[tuple[str, Tensor]],
    scratch: Callable[[int], Buffer],
) -> Step:
    """The step that ``target`` stands for. Raises LowerError for another, and for operands that the step has not."""
    if target not in _CALLS:
        raise LowerError(f"there is no step for a custom call of {target!r}.")
    dtypes, make = _CALLS[target]
    found = tuple(dtype for dtype, _ in (*inputs, *outputs))
    try:
        if found != dtypes:
            raise ValueError(f"operands and results are {found}, not {dtypes}")
        read, written = (tuple(t for _, t in side) for side in (inputs, outputs))
        return make(Call(name, json.loads(config), read, written, scratch))
    except (ValueError, LookupError, TypeError) as error:
        raise LowerError(f"the custom call of {target!r} is not coldforge's own ({error}).") from error


def _nms(call: Call) -> NmsStep:
    boxes, scores = call.inputs
    (count,), (size,) = scores.dims, call.outputs[0].dims
    overlaps = bool(call.config["overlaps"])
    _require(boxes.dims == (count, count if overlaps else 4))
    indices, kept, found = call.outputs
    _require((indices.dims, kept.dims, found.dims) == ((size,), (size,), ()))
    return NmsStep(
        call.name,
        boxes.buffer,
        scores.buffer,
        indices.buffer,
        kept.buffer,
        found.buffer,
        count=count,
        size=size,
        overlap=float(call.config["overlap"]),
        score=float(call.config["score"]),
        decay=float(call.config["decay"]),
        overlaps=overlaps,
        scratch=call.scratch(12 * count + 20 * min(size, count)),
    )


def _combined_nms(call: Call) -> CombinedNmsStep:
    boxes, scores = call.inputs
    batch, count, classes = scores.dims
    _, size, _ = call.outputs[0].dims
    per_class = int(call.config["per_class"])
    _require(boxes.dims in ((batch, count, 1, 4), (batch, count, classes, 4)) and 0 <= per_class <= count)
    out_boxes, out_scores, out_classes, found = call.outputs
    _require((out_boxes.dims, found.dims) == ((batch, size, 4), (batch,)))
    _require((out_scores.dims, out_classes.dims) == ((batch, size), (batch, size)))
    return CombinedNmsStep(
        call.name,
        boxes.buffer,
        scores.buffer,
        out_boxes.buffer,
        out_scores.buffer,
        out_classes.buffer,
        found.buffer,
        batch=batch,
        count=count,
        box_classes=boxes.dims[2],
        classes=classes,
        per_class=per_class,
        size=size,
        overlap=float(call.config["overlap"]),
        score=float(call.config["score"]),
        clip=bool(call.config["clip"]),
        scratch=call.scratch(8 * count + (16 * classes + 20) * per_class),
    )


def _require(fits: bool) -> None:
    if not fits:
        raise ValueError("shapes do not fit")


_FLOAT = "float32"
_CALLS: Mapping[str, tuple[tuple[str, ...], Callable[[Call], Step]]] = {
    NMS: ((_FLOAT, _FLOAT, "int32", _FLOAT, "int32"), _nms),
    COMBINED_NMS: ((_FLOAT, _FLOAT, _FLOAT, _FLOAT, _FLOAT, "int32"), _combined_nms),
}
"""Each with the dtypes of its operands and results."""
