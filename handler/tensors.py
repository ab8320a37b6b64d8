"""Tensors as JSON become raw bytes, and how many items of a batch there are of them."""

from __future__ import annotations

import struct

from .description import Description, Port
from .errors import HandlerError, TooManyImagesError, WrongShapeError, WrongTypeError
from .image import Limits

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
    types = set(map(type, flat))
    if float in types and not kind.startswith("float"):  # JSON does not tell 2.0 from 2
        flat = [int(number) if isinstance(number, float) and number.is_integer() else number for number in flat]
        types = set(map(type, flat))
    if not types <= _TYPES.get(kind, {int}) or (kind == "bool" and not set(flat) <= {0, 1}):
        raise WrongTypeError(f"{where} must hold {kind} only")
    try:
        return struct.pack(f"<{len(flat)}{port.format}", *flat)
    except (struct.error, OverflowError):
        raise WrongTypeError(f"{where} holds a number that {kind} cannot") from None


def of_shape(port: Port, shape: tuple[int, ...], description: Description) -> Port:
    """``port`` with the shape of a request, which may have another number of items. Raises WrongShapeError."""
    if shape == port.shape:
        return port
    if not description.batched or not shape or shape[1:] != port.shape[1:] or shape[0] < 1:
        sizes = ["n", *map(str, port.shape[1:])] if description.batched else map(str, port.shape)
        raise WrongShapeError(f'"{port.name}" has the shape {list(shape[:8])}; [{", ".join(sizes)}] is needed')
    return Port(port.name, port.dtype, shape, port.size // port.shape[0] * shape[0])


def require_items(counts: dict[str, int], description: Description, limits: Limits) -> None:
    """``counts``: the items for each feed that begins with the batch. Raises WrongShapeError, TooManyImagesError."""
    if len(set(counts.values())) > 1:
        found = ", ".join(f'"{name}" has {count}' for name, count in counts.items())
        raise WrongShapeError(f"all inputs must have the same number of items; {found}")
    most = limits.items if description.batched else description.batch
    if counts and max(counts.values()) > most:
        raise TooManyImagesError(f"the request has {max(counts.values())} items; at most {most} are taken at a time")


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
