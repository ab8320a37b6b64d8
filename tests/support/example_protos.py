"""Serialized tf.Examples for trying a reader, the same on every machine."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

_LISTS = {"string": 1, "float32": 2, "int64": 3}
"""The field number in ``Feature`` for each dtype."""
_SEED = 20

NUMBERS = (0, 1, -1, 127, 128, -128, 300, 2**31, -(2**31), 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.5, -1e30, 1e-40, float("inf"), float("-inf"), float("nan"))
TEXTS = (b"", b"a", b"red wine", "日本 ÄÖ".encode(), b"x" * 200, b"\0")


def encode_proto(
    features: Sequence[tuple[str, str, Sequence[Any]]], *, packed: bool = True, turned: bool = False
) -> bytes:
    """Return a tf.Example of features: key, dtype and values (None: no list). ``turned``: values before keys."""
    entries = b""
    for key, dtype, values in features:
        name = _encode_field(1, key.encode())
        feature = _encode_field(
            2, b"" if values is None else _encode_field(_LISTS[dtype], _encode_list(dtype, values, packed))
        )
        entries += _encode_field(1, feature + name if turned else name + feature)
    return _encode_field(1, entries)


def random_protos(features: Sequence[Any], count: int) -> list[bytes]:
    """Return ``count`` protos that a reader of ``features`` (handler/inputs/example.py) takes.

    Lists are encoded in all ways, keys repeated, other features added and optional ones left out.
    """
    random = np.random.Generator(np.random.PCG64(_SEED))
    return [_draw_proto(features, random) for _ in range(count)]


def _draw_proto(features: Sequence[Any], random: np.random.Generator) -> bytes:
    entries: list[tuple[str, str, Any]] = []
    for feature in features:
        if feature.default is not None and random.random() < 0.3:
            if random.random() < 0.3:
                entries.append((feature.key, feature.dtype, None))
            continue
        for _ in range(2 if random.random() < 0.2 else 1):
            entries.append((feature.key, feature.dtype, _draw_values(feature.dtype, feature.size, random)))
        if random.random() < 0.1:
            entries.append((feature.key, feature.dtype, None))
    keys = {feature.key for feature in features}
    for key in ("", "other", "日本"):
        if key not in keys and random.random() < 0.3:
            kind = list(_LISTS)[int(random.integers(3))]
            entries.append((key, kind, _draw_values(kind, int(random.integers(4)), random)))
    order = random.permutation(len(entries)) if random.random() < 0.5 else range(len(entries))
    packed, turned = random.random() < 0.6, random.random() < 0.3
    return encode_proto([entries[int(at)] for at in order], packed=packed, turned=turned)


def _draw_values(dtype: str, count: int, random: np.random.Generator) -> list[Any]:
    def one() -> Any:
        if dtype == "string":
            return TEXTS[int(random.integers(len(TEXTS)))]
        if dtype == "float32":
            odd = random.random() < 0.2
            return FLOATS[int(random.integers(len(FLOATS)))] if odd else float(np.float32(random.standard_normal()))
        return NUMBERS[int(random.integers(len(NUMBERS)))] if random.random() < 0.5 else int(random.integers(100))

    return [one() for _ in range(count)]


def _encode_list(dtype: str, values: Sequence[Any], packed: bool) -> bytes:
    if dtype == "string":
        return b"".join(_encode_field(1, value) for value in values)
    if dtype == "float32":
        floats = [struct.pack("<f", value) for value in values]
        return _encode_field(1, b"".join(floats)) if packed and values else b"".join(b"\x0d" + item for item in floats)
    varints = [_encode_varint(value % 2**64) for value in values]
    return _encode_field(1, b"".join(varints)) if packed and values else b"".join(b"\x08" + item for item in varints)


def _encode_field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _encode_varint(len(data)) + data


def _encode_varint(value: int) -> bytes:
    digits = []
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
