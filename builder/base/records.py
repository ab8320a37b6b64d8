"""JSON from untrusted sources, and dataclasses as rows of it."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")
NOT_A_RECORD = (TypeError, ValueError, LookupError)

_DEEPEST = 100
"""The largest nesting of lists and objects. coldforge writes less than twenty levels; Python's readers and writers
recurse, and fail at about a thousand."""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if the text is invalid, or if lists and objects are nested too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [child for children in inner for child in children]
        if not level:
            return value
    raise ValueError(f"its lists and objects are nested more than {_DEEPEST} levels deep")


def dump_record(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass for JSON, without those that have their default."""
    row = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value != (field.default if field.default_factory is MISSING else field.default_factory()):
            row[field.name] = _dump_value(value)
    return row


def _dump_value(value: Any) -> Any:
    if is_dataclass(value):
        return dump_record(value)
    return tuple(map(_dump_value, value)) if isinstance(value, tuple) else value


def read_record(kind: type[T], data: Any) -> T:
    """Make a dataclass of ``data``, by the types of its fields. Raises one of NOT_A_RECORD if the data do not fit."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _read_value(hints[name], value) for name, value in _require_type(dict, data).items()})


def read_part(kind: type[T], data: Any) -> T:
    """Make a dataclass of the entries of ``data`` for its fields, ignoring others. Raises as ``read_record``.

    All fields must have entries.
    """
    return read_record(kind, {field.name: data[field.name] for field in fields(typing.cast(Any, kind))})


def _read_value(kind: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        return read_record(typing.cast(type, kind), data)
    if origin in (typing.Union, types.UnionType):
        for item_type in arguments:
            try:
                return _read_value(item_type, data)
            except NOT_A_RECORD:
                continue
    if origin is typing.Literal and data in arguments:
        return data
    if origin in (dict, Mapping):
        return {
            _require_type(str, key): _read_value(arguments[1], value)
            for key, value in _require_type(dict, data).items()
        }
    if origin is tuple:
        values = _require_type(list, data)
        kinds = [arguments[0]] * len(values) if arguments[-1] is ... else arguments
        return tuple(_read_value(item_type, value) for item_type, value in zip(kinds, values, strict=True))
    if kind is float and type(data) is int:
        try:
            return float(data)
        except OverflowError as error:
            raise ValueError("a whole number that no float can hold") from error
    return data if kind is Any else _require_type(kind, data)


def _require_type(kind: Any, data: Any) -> Any:
    """Raise TypeError if ``data`` is not of the type ``kind``; a bool is not an int."""
    if not isinstance(kind, type) or not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise TypeError(f"{str(data)[:80]} is no {getattr(kind, '__name__', kind)}")
    return data
