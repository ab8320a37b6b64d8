"""The files beside an .onnx file that hold its weights, found without the packages that read such a model.

Formats: https://protobuf.dev/programming-guides/encoding/ and onnx.proto, whose messages nest by these fields.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible
from builder.config import Source

_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "tensor": {13: "entry"},
}
"""The messages in each message, by the numbers of their fields."""
_DEEPEST = 100


def list_source_files(source: Source, model: Path) -> list[Path]:
    """Return ``model`` and, of an ONNX model, the files with its weights.

    Raises ImportModelError where one is missing, or is not in the model's own folder or below.
    """
    if source.format != "onnx" or not model.is_file():
        return [model]
    files, folder = [model], model.parent.resolve()
    for name in _read_locations(model):
        path = model.parent / name
        shown = f'{model.name} has weights in the file "{escape_invisible(name)}"'
        if not name.isprintable() or not path.resolve().is_relative_to(folder):
            raise ImportModelError(f"{shown}, which is outside of its own folder: they are not read.")
        if not path.is_file():
            raise ImportModelError(
                f"{shown}, which is not beside it. Put it there. If the model comes from elsewhere, name "
                'an archive of both (.tar.gz, .zip), or join them: onnx.save(onnx.load("model.onnx"), "joined.onnx").'
            )
        files.append(path)
    return files


def _read_locations(model: Path) -> list[str]:
    """Return the names of the files, each once; none if ``model`` is no protobuf, which its own reader says better."""
    with model.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                entries = list(_list_entries(data, 0, len(data), "model"))
        except (IndexError, ValueError, RecursionError, UnicodeDecodeError):
            return []
    return list(dict.fromkeys(value for key, value in entries if key == "location" and value))


def _list_entries(data: mmap.mmap, at: int, end: int, message: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield key and value of each ``external_data`` in a message of this kind, which is at ``at`` to ``end``."""
    if depth > _DEEPEST:
        raise ValueError("depth")
    if message == "entry":
        texts = {field: data[first:last].decode() for field, first, last in _list_fields(data, at, end)}
        yield texts.get(1, ""), texts.get(2, "")
        return
    for field, first, last in _list_fields(data, at, end):
        if inner := _FIELDS[message].get(field):
            yield from _list_entries(data, first, last, inner, depth + 1)


def _list_fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of each field of a message that holds text, bytes or another message."""
    while at < end:
        tag, at = _read_varint(data, at)
        match tag & 7:
            case 0:
                _, at = _read_varint(data, at)
            case 1:
                at += 8
            case 2:
                size, at = _read_varint(data, at)
                yield tag >> 3, at, min(at + size, end)
                at += size
            case 5:
                at += 4
            case _:
                raise ValueError("wire type")


def _read_varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("varint")
