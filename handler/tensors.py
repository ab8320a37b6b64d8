"""Conversion of tensors, in JSON or as base64 of raw little-endian bytes, to raw bytes, and counting of their items."""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Callable, Collection, Sequence

from .budget import RequestLimits
from .description import Description, Port
from .errors import (
    HandlerError,
    NotBase64Error,
    TooManyImagesError,
    UnfitInputError,
    WrongShapeError,
    WrongTypeError,
)
from .typed import Any

ALIAS = "input"
"""A name for the input of a model that has only one, whatever its author or Keras called it."""
_TYPES: dict[str, set[type]] = {"bool": {bool, int}, "float32": {float, int}, "float64": {float, int}}


def read_tensor(value: object, port: Port) -> bytes:
    """Return the raw bytes of lists nested as ``port.shape``, one flat list, or {"b64": …}. Raises HandlerError."""
    where = f'"{port.name}"'
    if isinstance(value, dict):
        return _read_base64(value, where, port)
    if isinstance(value, list) and len(value) == port.elements and list not in set(map(type, value)):
        flat: list[object] = value
    elif port.shape:
        flat = []
        _flatten_lists(value, port.shape, port, flat)
    else:
        flat = [value]
    kind = port.dtype
    # This is one pass in C; an image's worth of numbers would take tens of milliseconds in Python.
    types = set(map(type, flat))
    if list in types:
        raise _wrong_shape(port)
    if float in types and not kind.startswith("float"):  # JSON does not distinguish 2.0 from 2
        flat = [int(number) if isinstance(number, float) and number.is_integer() else number for number in flat]
        types = set(map(type, flat))
    if not types <= _TYPES.get(kind, {int}) or (kind == "bool" and not set(flat) <= {0, 1}):
        raise WrongTypeError(f"{where} must hold {kind} only")
    try:
        data = struct.pack(f"<{len(flat)}{port.format}", *flat)
    except (struct.error, OverflowError):
        raise WrongTypeError(f"{where} holds a number that {kind} cannot hold") from None
    return require_finite(data, port, where)


def require_finite(data: bytes, port: Port, where: str) -> bytes:
    """Return ``data``, the raw bytes of the feed ``port``. Raises UnfitInputError for NaN and infinities.

    A feed that takes them is not checked.
    """
    if port.nan or not port.dtype.startswith("float"):
        return data
    # NaN and infinities have 0x7f or 0xff in their last byte, as do the largest of the other numbers.
    size = struct.calcsize(port.format)
    last = data[size - 1 :: size]
    if b"\x7f" in last or b"\xff" in last:
        for number, value in enumerate(memoryview(data).cast(port.format)):
            if not math.isfinite(value):
                raise UnfitInputError(f"{where}: element {number} is NaN or infinite, which this input does not take")
    return data


def name_single(values: Any, names: Sequence[str]) -> Any:
    """Return ``values`` by the inputs' own ``names``: a single input may go by ``ALIAS`` instead of its name."""
    if len(names) == 1 and isinstance(values, dict) and [*values] == [ALIAS]:
        return {names[0]: values[ALIAS]}
    return values


def choose_description(values: dict[str, object], description: Description) -> Description:
    """Return ``description`` in the size of these ``values`` (by feed, as ``read_tensor`` takes them).

    Raises WrongShapeError.
    """
    if description.one_size:
        return description
    from .shape_buckets import choose_size, measure_shape

    ports = {port.name: port for port in description.feeds}
    return choose_size({name: measure_shape(value, ports[name]) for name, value in values.items()}, description)


def input_bytes(value: object, port: Port, description: Description, left: Callable[[], float]) -> bytes:
    """Return the raw bytes of the feed ``port`` from ``value``, as ``read_tensor`` takes it. Raises HandlerError.

    ``description``: the result of ``choose_description``. A smaller tensor is filled up with the value in ``pad``, if
    there is time ``left``: see ``Invocation.count_seconds_left``.
    """
    if port.name not in description.pad:
        return read_tensor(value, port)
    from .shape_buckets import match_port, measure_shape, pad_tensor

    actual = match_port(measure_shape(value, port), port, description)
    return pad_tensor(read_tensor(value, actual), actual, port, description, left)


def _read_base64(value: dict[object, object], where: str, port: Port) -> bytes:
    """Return the bytes in {"b64": …}, row-major, in the model's own size."""
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
    return require_finite(data, port, where)


def reshape_port(port: Port, shape: tuple[int, ...], description: Description) -> Port:
    """Return ``port`` with the shape of a request, which may have another number of items. Raises WrongShapeError."""
    if shape == port.shape:
        return port
    if not description.batched or not shape or shape[1:] != port.shape[1:] or shape[0] < 1:
        sizes = ["n", *map(str, port.shape[1:])] if description.batched else map(str, port.shape)
        raise WrongShapeError(f'"{port.name}" has the shape {list(shape[:8])}; [{", ".join(sizes)}] is needed')
    return port._replace(shape=shape, size=port.size // port.shape[0] * shape[0])


def item_count(value: object, port: Port) -> int:
    """Return the number of items of ``value``, as ``read_tensor`` takes it, for a feed that begins with the batch.

    It is the compiled batch where ``value`` does not tell: in a flat list, or in what ``read_tensor`` will refuse.
    """
    batch = port.shape[0]
    if isinstance(value, dict) and isinstance(text := value.get("b64"), str):
        size, each = len(text) // 4 * 3 - text[-2:].count("="), port.size // batch
        return size // each if each and size and size % each == 0 else batch
    return len(value) if isinstance(value, list) and _count_levels(value) == len(port.shape) else batch


def _count_levels(value: object) -> int:
    """Return how deep lists are nested, by their first items."""
    levels = 0
    while isinstance(value, list) and value:
        value, levels = value[0], levels + 1
    return levels


def require_items(counts: dict[str, int], description: Description, limits: RequestLimits) -> None:
    """Check ``counts``, the items of each feed with a batch. Raises WrongShapeError, TooManyImagesError."""
    if len(set(counts.values())) > 1:
        counted = ", ".join(f'"{name}" has {count}' for name, count in counts.items())
        raise WrongShapeError(f"all inputs must have the same number of items; {counted}")
    most = limits.items if description.batched else description.batch
    if counts and max(counts.values()) > most:
        raise TooManyImagesError(f"the request has {max(counts.values())} items; at most {most} are allowed at a time")


def require_tensor_memory(names: Collection[str], count: int, description: Description, limits: RequestLimits) -> None:
    """Raise OverBudgetError for more items of the feeds ``names`` than there is memory for.

    Each item is held twice, before and after it is filled up to the model's size.
    """
    if count > description.batch:
        size = sum(port.size for port in description.feeds if port.name in names)
        limits.require_memory(2 * size * count // description.batch)


def set_item_counts(
    ports: Sequence[Port], counts: dict[str, int], description: Description, limits: RequestLimits
) -> list[Port]:
    """Return ``ports`` with the number of items in ``counts``, by name; a port without a count is unchanged.

    Raises WrongShapeError, TooManyImagesError, OverBudgetError.
    """
    require_items(counts, description, limits)
    require_tensor_memory([port.name for port in ports], max(counts.values(), default=0), description, limits)
    return [
        reshape_port(port, (counts[port.name], *port.shape[1:]), description) if port.name in counts else port
        for port in ports
    ]


def _flatten_lists(value: object, shape: tuple[int, ...], port: Port, flat: list[object]) -> None:
    """Append the numbers of nested lists of ``shape`` to ``flat``, unchecked. Raises WrongShapeError."""
    if not isinstance(value, list) or len(value) != shape[0]:
        raise _wrong_shape(port)
    if len(shape) == 1:
        flat.extend(value)
        return
    for item in value:
        _flatten_lists(item, shape[1:], port, flat)


def _wrong_shape(port: Port) -> HandlerError:
    return WrongShapeError(
        f'"{port.name}" must have the shape {list(port.shape)}, or be one list of {port.elements} numbers'
    )
