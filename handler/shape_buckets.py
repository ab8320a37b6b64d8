"""The choice of the model's size for a request, and padding to it: for models of several sizes, or with ``pad``."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod

from .deadline import no_deadline
from .description import Description, Port
from .errors import OutOfTimeError, WrongShapeError

SHORT_ROW = 16
"""Bytes of a row up to which copying by columns is faster than by rows."""
ROWS_AT_ONCE = 4_096
"""Rows that are copied between two checks of the time."""

Shape = tuple[int, ...]


def measure_shape(value: object, port: Port) -> Shape:
    """Return the shape of nested lists, judged by their first elements; for {"b64": …} that of one flat list."""
    if isinstance(value, dict) and isinstance(text := value.get("b64"), str):
        return ((len(text) // 4 * 3 - text[-2:].count("=")) * port.elements // (port.size or 1),)
    shape: list[int] = []
    while isinstance(value, list) and len(shape) <= len(port.shape):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def choose_size(shapes: Mapping[str, Shape], description: Description) -> Description:
    """Return ``description`` in the size whose feeds have ``shapes``, or in the smallest that they can be padded to.

    Raises WrongShapeError, which names every size.
    """
    sizes = description.size_variants
    for sized in sizes:
        if all(_has_shape(shapes[p.name], p, sized) for p in sized.feeds if p.name in shapes):
            return sized
    for sized in sorted(sizes, key=lambda s: sum(port.size for port in s.feeds)):
        if all(_can_pad_shape(shapes[p.name], p, sized) for p in sized.feeds if p.name in shapes):
            return sized
    actual = ", ".join(f'"{name}" has the shape {list(shape[:8])}' for name, shape in shapes.items())
    accepted = " or ".join(", ".join(_format_shapes(sized, set(shapes))) for sized in sizes)
    raise WrongShapeError(f"{actual}; {accepted} is needed" + (", or less" if description.pad else ""))


def match_port(shape: Shape, port: Port, description: Description) -> Port:
    """Return the port for a tensor of ``shape``: ``port``, or a smaller one, which ``pad_tensor`` fills up.

    ``description``: the result of ``choose_size`` for the request. ``port``: one of its feeds.
    """
    items = 1 if description.batched else 0
    if (
        _can_pad_shape(shape, port, description)
        and len(shape) == len(port.shape)
        and shape[:items] == port.shape[:items]
    ):
        return port._replace(shape=shape, size=port.size // (port.elements or 1) * prod(shape))
    return port


def pad_tensor(
    data: bytes, given: Port, port: Port, description: Description, left: Callable[[], float] = no_deadline
) -> bytes:
    """Pad ``data``, row-major in the shape of ``given``, to that of ``port`` with the value in ``description.pad``.

    This takes twice the memory of ``port``, however small its rows are. ``left``: returns the seconds left. Raises
    OutOfTimeError.
    """
    pad = description.pad.get(port.name, 0)
    element = struct.pack(f"<{port.format}", pad if port.dtype.startswith("float") else int(pad))
    filled: bytes | bytearray = data
    for axis in reversed(range(len(port.shape))):
        inner = prod(port.shape[axis + 1 :]) * len(element)
        length, wanted = given.shape[axis] * inner, port.shape[axis] * inner
        if length < wanted:
            filled = _lengthen_rows(filled, length, wanted, element, left)
    return bytes(filled)


def _lengthen_rows(
    data: bytes | bytearray, length: int, wanted: int, element: bytes, left: Callable[[], float]
) -> bytearray:
    """Return the rows of ``length`` bytes as rows of ``wanted``, each filled up with ``element``."""
    _require_time(left)
    rows = len(data) // length
    padded = bytearray(element) * (rows * wanted // len(element))
    source, target = memoryview(data), memoryview(padded)
    # Only short rows go column by column, as each byte of a column lies in another line of the processor's cache.
    if length > SHORT_ROW or rows <= length:
        for row in range(rows):
            if row % ROWS_AT_ONCE == 0:
                _require_time(left)
            target[row * wanted : row * wanted + length] = source[row * length : (row + 1) * length]
    else:
        for at in range(length):
            _require_time(left)
            target[at::wanted] = source[at::length]
    return padded


def _require_time(left: Callable[[], float]) -> None:
    if left() <= 0:
        raise OutOfTimeError("the function ran out of time while it filled an input up; send fewer items")


def _has_shape(shape: Shape, port: Port, description: Description) -> bool:
    if shape in (port.shape, (port.elements,)):
        return True
    return description.batched and shape[:1] != (0,) and shape[1:] == port.shape[1:] and len(shape) == len(port.shape)


def _can_pad_shape(shape: Shape, port: Port, description: Description) -> bool:
    """Return whether ``shape`` is the port's, or is smaller and may be padded."""
    if _has_shape(shape, port, description):
        return True
    free = 1 if description.batched else 0  # the number of items is free
    return (
        port.name in description.pad
        and len(shape) == len(port.shape)
        and all(shape)
        and all(size <= most for size, most in zip(shape[free:], port.shape[free:], strict=True))
    )


def _format_shapes(description: Description, names: set[str]) -> Iterator[str]:
    for port in description.feeds:
        if port.name in names:
            sizes = ["n", *map(str, port.shape[1:])] if description.batched else map(str, port.shape)
            yield f'"{port.name}" [{", ".join(sizes)}]'
