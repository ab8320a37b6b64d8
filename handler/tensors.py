"""Tensors as JSON become raw bytes."""

from __future__ import annotations

import struct

from .description import Port
from .errors import HandlerError, WrongShapeError, WrongTypeError


def tensor(value: object, port: Port) -> bytes:
    """Nested lists of ``port.shape``, or one flat list of all elements, as raw bytes. Raises HandlerError."""
    where = f'"inputs"."{port.name}"'
    if isinstance(value, list) and len(value) == port.elements and not any(isinstance(v, list) for v in value):
        flat: list[object] = value
    else:
        flat = []
        _flatten(value, port.shape, port, flat)
    kind = port.dtype
    for number in flat:
        if kind == "bool":
            right = isinstance(number, bool) or number in (0, 1)
        elif kind.startswith("float"):
            right = isinstance(number, int | float) and not isinstance(number, bool)
        else:
            right = isinstance(number, int) and not isinstance(number, bool)
        if not right:
            raise WrongTypeError(f"{where} must hold {kind} only")
    try:
        return struct.pack(f"={len(flat)}{port.format}", *flat)
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
