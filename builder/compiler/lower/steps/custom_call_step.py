"""Custom calls of coldforge's own steps, written by the rewrites (``builder/importers/rewrites/custom_steps.py``).

The steps' sizes come from the shapes that XLA compiled; only plain numbers come from the call's text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import hlo_proto
from builder.compiler.lower.steps.base import Buffer, Step
from builder.compiler.lower.steps.thunk_reader import ThunkReader, reads_thunk


@dataclass(frozen=True)
class CallTensor:
    """An operand or a result: row-major, and of the dtype that the step has there."""

    dims: tuple[int, ...]
    buffer: Buffer


@dataclass(frozen=True)
class CustomCall:
    """A custom call, whose ``scratch`` reserves memory of a given number of bytes for a step."""

    name: str
    config: Mapping[str, float | bool]
    inputs: tuple[CallTensor, ...]
    outputs: tuple[CallTensor, ...]
    scratch: Callable[[int], Buffer]


ReadCall = Callable[[CustomCall], Step]
"""A function that reads the step of a call, or raises ValueError, LookupError or TypeError if no rewrite writes it."""

_CALLS: dict[str, tuple[tuple[tuple[str, ...], ...], ReadCall]] = {}
"""Possible dtypes of operands and results, and the reader, of each target."""


def reads_call(target: str, *dtypes: tuple[str, ...]) -> Callable[[ReadCall], ReadCall]:
    """Register the decorated function for calls of ``target`` whose operands and results have one of ``dtypes``."""

    def register(read: ReadCall) -> ReadCall:
        _CALLS[target] = dtypes, read
        return read

    return register


def require_shapes(fits: bool) -> None:
    """Raise ValueError unless the shapes of a call fit each other."""
    if not fits:
        raise ValueError("shapes do not fit")


@reads_thunk("custom_call_thunk")
def _read_custom_call(name: str, thunk: Any, reader: ThunkReader) -> Step:
    buffers = thunk.op_buffers
    inputs, outputs = (
        [make_tensor(proto.shape, reader.resolve_shaped_slice(proto, name)) for proto in side]
        for side in (buffers.arguments_shapes, buffers.results_shapes)
    )
    return make_step(thunk.target_name, name, thunk.backend_config, inputs, outputs, reader.reserve_scratch)


def make_tensor(shape: Any, buffer: Buffer) -> tuple[str, CallTensor]:
    """Return the dtype of a ShapeProto, and its CallTensor; raise LowerError if it is not row-major."""
    if not hlo_proto.is_row_major(shape):
        raise LowerError("a step of coldforge's own has dimensions in another order; report this model.")
    return hlo_proto.get_dtype(shape), CallTensor(tuple(shape.dimensions), buffer)


def make_step(
    target: str,
    name: str,
    config: bytes,
    inputs: list[tuple[str, CallTensor]],
    outputs: list[tuple[str, CallTensor]],
    scratch: Callable[[int], Buffer],
) -> Step:
    """Return the step of a call of ``target``; raise LowerError for an unknown target or unsuitable operands."""
    if target not in _CALLS:
        raise LowerError(f"there is no step for a custom call of {target!r}.")
    dtypes, make = _CALLS[target]
    actual = tuple(dtype for dtype, _ in (*inputs, *outputs))
    try:
        if actual not in dtypes:
            raise ValueError(f"operands and results are {actual}, not {' or '.join(map(str, dtypes))}")
        read, written = (tuple(t for _, t in side) for side in (inputs, outputs))
        return make(CustomCall(name, json.loads(config), read, written, scratch))
    except (ValueError, LookupError, TypeError) as error:
        raise LowerError(f"the custom call of {target!r} is not coldforge's own ({error}).") from error
