"""Tensors as JSON become raw bytes."""

from __future__ import annotations

import struct

from .description import Port
from .errors import HandlerError, WrongShapeError, WrongTypeError

_TYPES: dict[str, set[type]] = {"bool": {bool, int}, "float32": {float, int}, "float64": {float, int}}


def tensor(value: object, port: Port) -> bytes:
    """Nested lists of ``port.shape``, or one flat list of all elements, as raw bytes. Raises HandlerError."""
    where = f'"inputs"."{port.name}"'
    if isinstance(value, list) and len(value) == port.elements and not any(isinstance(v, list) for v in value):
        flat: list[object] = value
    else:
        flat = []
        _flatten(value, port.shape, port, flat)
    kind = port.dtype
    # One pass in C, where a picture's worth of numbers would take tens of milliseconds here.
    if not set(map(type, flat)) <= _TYPES.get(kind, {int}) or (kind == "bool" and not set(flat) <= {0, 1}):
        raise WrongTypeError(f"{where} must hold {kind} only")
    try:
        return struct.pack(f"<{len(flat)}{port.format}", *flat)
    except (struct.error, OverflowError):
        raise WrongTypeError(f"{where} holds a number that {kind} cannot") from None


def _flatten(value: object, shape: tuple[int, ...], port: Port, flat: list[object]) -> None:
    if not shape:
        if isinstance(value, list):
            raise _wrong_shape(port)
        flat.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise _wrong_shape(port)
    for item in value:
        _flatten(item, shape[1:], port, flat)


def _wrong_shape(port: Port) -> HandlerError:
    return WrongShapeError(
        f'"inputs"."{port.name}" must have the shape {list(port.shape)}, or be one list of {port.elements} numbers'
    )
