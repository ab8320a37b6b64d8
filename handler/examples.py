"""Serialized tf.Example protos become what a model takes: a value for each of its features.

Imported for such models alone. Of the protobuf wire format as much is read as these messages have
(https://protobuf.dev/programming-guides/encoding, tensorflow/core/example/feature.proto), in one pass, in time and
memory proportional to the bytes:

    Example   features 1: Features
    Features  feature 1: a map from the key 1 to the Feature 2; of a key that is there twice, the last one counts
    Feature   bytes_list 1, float_list 2 or int64_list 3: lists of values 1, of numbers packed or one by one

What TensorFlow's ParseExample takes becomes the same values here, or is refused: it reads a list in two parts, or two
lists in one feature, in ways of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from .budget import JSON_VALUE, TEXTS_TOGETHER, RequestLimits
from .description import Description
from .errors import NotTextError, TooLargeError, WrongExampleError, WrongFieldError, WrongShapeError
from .request import Request, encoded_file
from .tensors import require_finite, require_items, require_tensor_memory
from .tuples import NamedTuple

KINDS = {"string": (0x0A, "bytes_list"), "float32": (0x12, "float_list"), "int64": (0x1A, "int64_list")}
"""The tag of the list that a feature of each dtype is, and its name."""
_NAMES = dict(KINDS.values())
_TAGS = frozenset(_NAMES)
_FIRST, _SECOND, _FIXED, _VARINT = 0x0A, 0x12, 0x0D, 0x08
"""Tags: fields 1 and 2 of so many bytes; field 1 as four bytes, and as a varint."""
_LENGTH = 2
"""The wire type of a field of so many bytes."""

Value = bytes | tuple[bytes, ...]
"""Of one feature: numbers as raw little-endian bytes, or strings."""


class Feature(NamedTuple):
    """What a model takes of an example: ``size`` values under ``key``; ``default`` where the feature may be missing."""

    key: str
    dtype: str  # float32 | int64 | string
    size: int
    default: Value | None = None


class _DamagedError(Exception):
    """Bytes that are no such message."""


def parse_example(data: bytes, features: Sequence[Feature]) -> list[Value]:
    """The values of ``features`` in one serialized tf.Example. Raises WrongExampleError, which names the feature."""
    try:
        found = _locate_features(data, {feature.key.encode() for feature in features})
    except (_DamagedError, IndexError):
        raise WrongExampleError("the bytes are no tf.Example") from None
    values: list[Value] = []
    for feature in features:
        start, end = found.get(feature.key.encode(), (0, 0))
        if start == end:
            if feature.default is None:
                raise WrongExampleError(f'the feature "{feature.key}" is missing')
            values.append(feature.default)
            continue
        try:
            values.append(_parse_value(data, start, end, feature))
        except (_DamagedError, IndexError):
            raise WrongExampleError(f'the feature "{feature.key}" is damaged') from None
    return values


def list_features(description: Description) -> tuple[Feature, ...]:
    """What an example has to have for the model."""
    assert description.examples is not None
    ports = {port.name: port for port in description.caller_inputs}
    return tuple(
        Feature(one.key, ports[one.name].dtype, ports[one.name].elements // description.batch, one.default)
        for one in description.examples.features
    )


def make_request(
    examples: Sequence[object],
    description: Description,
    limits: RequestLimits,
    require_answer: Callable[[int], None] = lambda count: None,
) -> Request:
    """A request of serialized tf.Examples alone: bytes, or base64 text of them. Raises HandlerError.

    ``require_answer`` is called with how many they are, before they are read.
    """
    assert description.examples is not None
    count, where = len(examples), f'"{description.examples.name}"'
    if not count:
        raise WrongFieldError(f"{where} is empty; a tf.Example is needed")
    require_items({description.examples.name: count}, description, limits)
    if count != description.batch and not description.batched:
        raise WrongShapeError(f"{where} has {count} items; this model takes {description.batch} at a time")
    names, features = [one.name for one in description.examples.features], list_features(description)
    require_tensor_memory(names, count, description, limits)
    limits.require_memory(JSON_VALUE * count * sum(one.size for one in features if one.dtype == "string"))
    require_answer(count)
    columns: list[list[Value]] = [[] for _ in features]
    by_name = {port.name: port for port in description.caller_inputs}
    ports = [by_name[name] for name in names]
    for number, example in enumerate(examples):
        place = f"{where}[{number}]"
        data = example if isinstance(example, bytes) else _decode_example(example, place, limits)
        try:
            values = parse_example(data, features)
        except WrongExampleError as error:
            raise WrongExampleError(f"{place}: {error.message}") from error.__cause__
        for column, value, feature, port in zip(columns, values, features, ports, strict=True):
            if isinstance(value, bytes) and value is not feature.default:
                require_finite(value, port, f'{place}: the feature "{feature.key}"')
            column.append(value)
    inputs: dict[str, bytes] = {}
    strings: dict[str, tuple[bytes, ...]] = {}
    for name, feature, column in zip(names, features, columns, strict=True):
        if feature.dtype == "string":
            strings[name] = tuple(text for texts in column for text in texts)  # type: ignore[misc]  # bytes each
            _require_texts(strings[name], f'the feature "{feature.key}"', limits)
        else:
            inputs[name] = b"".join(column)  # type: ignore[arg-type]  # numbers are bytes
    if (whole := sum(len(text) for texts in strings.values() for text in texts)) > limits.characters * TEXTS_TOGETHER:
        raise TooLargeError(
            f"the strings have {whole:,} bytes; at most {limits.characters * TEXTS_TOGETHER:,} are taken"
        )
    return Request((), inputs, description.name, signature=description.signature, strings=strings)


def _decode_example(example: object, place: str, limits: RequestLimits) -> bytes:
    """An example of no features at all has no bytes."""
    return encoded_file(example, place, limits.encoded).data if example != "" else b""


def _require_texts(texts: Sequence[bytes], where: str, limits: RequestLimits) -> None:
    """The steps behind take UTF-8."""
    for text in texts:
        if len(text) > limits.characters:
            raise TooLargeError(f"{where} has {len(text):,} bytes in one string; at most {limits.characters:,}")
        try:
            text.decode()
        except UnicodeDecodeError:
            raise NotTextError(f"{where} is not UTF-8") from None


def _locate_features(data: bytes, wanted: set[bytes]) -> dict[bytes, tuple[int, int]]:
    """Where each ``wanted`` feature begins and ends, by key: the last of a key that is not empty. Raises _DamagedError.

    Raises IndexError, too, where the bytes end in a number.
    """
    found: dict[bytes, tuple[int, int]] = {}
    at, size = 0, len(data)
    while at < size:
        tag = data[at]
        start, end = _locate_field(data, at + 1, size)
        if tag & 7 != _LENGTH or tag >= 0x80 or tag < _FIRST:
            raise _DamagedError
        at = start if tag == _FIRST else end
        while at < end:  # the map's entries
            if data[at] != _FIRST:
                raise _DamagedError
            entry, at = _locate_field(data, at + 1, end)
            key, feature = _parse_entry(data, entry, at)
            if feature[0] != feature[1] and key in wanted:
                if data[feature[0]] not in _TAGS:  # also of one that another takes the place of
                    raise _DamagedError
                found[key] = feature
    return found


def _parse_entry(data: bytes, at: int, end: int) -> tuple[bytes, tuple[int, int]]:
    """The key, and where its feature begins and ends."""
    key, feature, left = b"", (0, 0), {_FIRST, _SECOND}
    while at < end:
        tag = data[at]
        if tag not in left:
            raise _DamagedError
        left.discard(tag)
        start, at = _locate_field(data, at + 1, end)
        if tag == _FIRST:
            key = data[start:at]
        else:
            feature = start, at
    if left:
        raise _DamagedError
    return key, feature


def _parse_value(data: bytes, at: int, end: int, feature: Feature) -> Value:
    tag, name = KINDS[feature.dtype]
    if data[at] != tag:
        raise WrongExampleError(f'the feature "{feature.key}" is {_NAMES[data[at]]}; the model takes {name}')
    at, stop = _locate_field(data, at + 1, end)
    if stop != end:
        raise _DamagedError
    if feature.dtype == "string":
        strings = []
        while at < end:
            if data[at] != _FIRST:
                raise _DamagedError
            start, at = _locate_field(data, at + 1, end)
            strings.append((start, at))
            if len(strings) > feature.size:
                break
        _require_count(len(strings), feature)
        return tuple(data[start:stop] for start, stop in strings)
    if at < end and data[at] == _FIRST:
        at, stop = _locate_field(data, at + 1, end)
        if stop != end:
            raise _DamagedError
        return (
            _packed_floats(data[at:end], feature)
            if feature.dtype == "float32"
            else _parse_integers(data[at:end], feature)
        )
    if feature.dtype == "float32":
        if (end - at) % 5 or any(tag != _FIXED for tag in data[at:end:5]):
            raise _DamagedError
        _require_count((end - at) // 5, feature)
        return b"".join([data[one : one + 4] for one in range(at + 1, end, 5)])
    return _parse_integers(data[at:end], feature, one_by_one=True)


def _packed_floats(data: bytes, feature: Feature) -> bytes:
    if len(data) % 4:
        raise _DamagedError
    _require_count(len(data) // 4, feature)
    return data


def _parse_integers(data: bytes, feature: Feature, *, one_by_one: bool = False) -> bytes:
    """Varints in a row; each behind its tag where they are ``one_by_one``."""
    if data.isascii() and not one_by_one:  # one byte each
        _require_count(len(data), feature)
        return struct.pack(f"<{len(data)}q", *data)
    values: list[int] = []
    at = 0
    while at < len(data):
        if one_by_one:
            if data[at] != _VARINT:
                raise _DamagedError
            at += 1
        value, at = _parse_varint(data, at)
        value &= (1 << 64) - 1
        values.append(value - (value >> 63 << 64))
        if len(values) > feature.size:
            break
    _require_count(len(values), feature)
    return struct.pack(f"<{len(values)}q", *values)


def _require_count(count: int, feature: Feature) -> None:
    if count != feature.size:
        found = "more" if count > feature.size else f"{count:,}"
        many = "value" if feature.size == 1 else "values"
        raise WrongExampleError(f'the feature "{feature.key}" must have {feature.size:,} {many}, not {found}')


def _locate_field(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where a field of so many bytes, whose length stands at ``at``, begins and ends: no later than at ``end``."""
    length = data[at]
    if length < 0x80:
        start = at + 1
    else:
        length, start = _parse_varint(data, at)
    if start + length > end:
        raise _DamagedError
    return start, start + length


def _parse_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, of ten bytes at most, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _DamagedError
