"""Tensors as JSON, or as base64 of raw little-endian bytes, become raw bytes."""

from __future__ import annotations

import binascii
import struct

from .description import Port
from .errors import HandlerError, NotBase64Error, WrongShapeError, WrongTypeError


def tensor(value: object, port: Port) -> bytes:
    """Raw bytes of nested lists of ``port.shape``, of one flat list, or of {"b64": …}. Raises HandlerError."""
    where = f'"inputs"."{port.name}"'
    if isinstance(value, dict):
        return _raw(value, where, port)
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


def _raw(value: dict[object, object], where: str, port: Port) -> bytes:
    """The bytes themselves, row-major: the model's own size of them."""
    text = value.get("b64")
    if len(value) != 1 or not isinstance(text, str):
        raise WrongTypeError(f'{where} must be lists of numbers, or {{"b64": "<raw little-endian bytes>"}}')
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise NotBase64Error(f"{where} is not base64") from None
    if len(data) != port.size:
        raise WrongShapeError(f"{where} has {len(data):,} bytes; {port.dtype} {list(port.shape)} is {port.size:,}")
    if port.dtype == "bool" and data.strip(b"\0\1"):
        raise WrongTypeError(f"{where} must hold bytes 0 and 1 only")
    return data


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
