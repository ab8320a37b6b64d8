"""A search without TensorFlow for signatures of a SavedModel with strings.

In saved_model.pb (a SavedModel protobuf), only the fields that lead to ``TensorInfo.dtype`` are read: meta_graphs 2,
signature_def 5, the map's value 2, inputs 1 or outputs 2, the map's value 2, dtype 2. A damaged file counts as without
strings, as the importer reports the damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_STRING = 7
"""The value of DT_STRING in TensorFlow's types.proto."""

_WAYS = ((2, 5, 2, 1, 2), (2, 5, 2, 2, 2))
_DTYPE = 2


def has_strings(path: Path) -> bool:
    """Return whether any signature of the SavedModel in the folder ``path`` has inputs or outputs of strings."""
    file = path / "saved_model.pb"
    if not file.is_file():
        return False
    data = memoryview(file.read_bytes())
    try:
        infos = (info for way in _WAYS for info in _find_messages(data, way))
        return any(field == (_DTYPE, _STRING) for info in infos for field in _read_fields(info))
    except ValueError:
        return False


def _find_messages(data: memoryview, way: tuple[int, ...]) -> Iterator[memoryview]:
    if not way:
        yield data
        return
    for number, value in _read_fields(data):
        if number == way[0] and isinstance(value, memoryview):
            yield from _find_messages(value, way[1:])


def _read_fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield each field's number and its value, a varint or bytes, or raise ValueError."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, at = _read_varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("group")
        if at + length > len(data):
            raise ValueError("length")
        if kind == 2:
            yield tag >> 3, data[at : at + length]
        at += length


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read the number at ``at`` and return it with the position of its end."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise ValueError("end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("varint")
