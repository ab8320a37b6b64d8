"""Strings in a request: nested lists of a model's own shape, with any number of items, become UTF-8, row-major."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..budget import TEXTS_TOGETHER, Limits
from ..description import Description, StringInput
from ..errors import NotTextError, TooLargeError, TooManyImagesError, WrongShapeError, WrongTypeError


def strings_of(
    values: Mapping[str, object], description: Description, limits: Limits
) -> tuple[dict[str, tuple[bytes, ...]], dict[str, int]]:
    """The strings of every input of them, and how many items each has. Raises HandlerError."""
    found: dict[str, tuple[bytes, ...]] = {}
    counts: dict[str, int] = {}
    for one in description.strings:
        flat, counts[one.name] = _flat(values[one.name], one, limits.items if description.batched else one.shape[0])
        found[one.name] = tuple(_utf8(text, f'"{one.name}"', limits) for text in flat)
    whole = sum(len(text) for texts in found.values() for text in texts)
    if whole > (most := limits.characters * TEXTS_TOGETHER):
        raise TooLargeError(f"the strings have {whole:,} bytes; at most {most:,} are allowed at a time")
    return found, counts


def _flat(value: object, one: StringInput, most: int) -> tuple[list[object], int]:
    """The strings in lists within lists; a string where an item is one, and a flat list of them where it is [1]."""
    where = f'"{one.name}"'
    item = one.shape[1:]
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise WrongTypeError(f"{where} must be a list of strings")
    if one.each == 1 and isinstance(value[0], str):
        item = ()
    size = prod(item)
    if len(value) > most:
        raise TooManyImagesError(f"{where} has {len(value)} items; at most {most} are allowed at a time")
    level, sizes = list(value), list(item)
    while sizes:
        wide = sizes.pop(0)
        if any(not isinstance(row, list) or len(row) != wide for row in level):
            raise WrongShapeError(f"{where} must have the shape {['n', *item]}, of strings")
        level = [entry for row in level for entry in row]
    return level, len(level) // size


def _utf8(value: object, where: str, limits: Limits) -> bytes:
    if not isinstance(value, str):
        raise WrongTypeError(f"{where} must hold strings only")
    if len(value) > limits.characters:
        raise TooLargeError(f"{where} has {len(value):,} characters in one string; at most {limits.characters:,}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise NotTextError(f"{where} has half of a surrogate pair, which is no character") from None
