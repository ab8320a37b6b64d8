"""Serialized tf.Examples, in base64, which replace all inputs of a model.

The module reads the part of the protobuf wire format that these messages use
(https://protobuf.dev/programming-guides/encoding, tensorflow/core/example/feature.proto), in one pass, in time and
memory proportional to the bytes:

    Example   features 1: Features
    Features  feature 1: a map from the key 1 to the Feature 2; of a repeated key, the last one counts
    Feature   bytes_list 1, float_list 2 or int64_list 3: lists of values 1, numbers packed or one by one

An example that TensorFlow's ParseExample accepts gives the same values here or is refused: ParseExample reads a list in
two parts, or two lists in one feature, in ways of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from ..budget import JSON_VALUE, TEXTS_TOGETHER, RequestLimits
from ..description import Description
from ..errors import NotTextError, TooLargeError, WrongExampleError, WrongFieldError, WrongShapeError, WrongTypeError
from ..named_tuples import NamedTuple
from ..request import Request, encoded_file
from ..tensors import require_finite, require_items, require_tensor_memory
from ..typed import Any
from . import InputKind

KINDS = {"string": (0x0A, "bytes_list"), "float32": (0x12, "float_list"), "int64": (0x1A, "int64_list")}
"""For each dtype, the tag and the name of the list that holds a feature's values."""
_NAMES = dict(KINDS.values())
_TAGS = frozenset(_NAMES)
_FIRST, _SECOND, _FIXED, _VARINT = 0x0A, 0x12, 0x0D, 0x08
"""Tags: the length-delimited fields 1 and 2; field 1 as four bytes, and as a varint."""
_LENGTH = 2
"""The wire type of a length-delimited field."""

Value = bytes | tuple[bytes, ...]
"""The value of one feature: numbers as raw little-endian bytes, or strings."""


class Feature(NamedTuple):
    """A feature that a model needs: ``size`` values under ``key``; ``default`` is set if the feature may be missing."""

    key: str
    dtype: str  # float32 | int64 | string
    size: int
    default: Value | None = None


class _DamagedError(Exception):
    """The bytes are not such a message."""


def make_kind(description: Description) -> InputKind:
    """Return the kind of ``{"examples": […]}``."""
    inputs = tuple(port.name for port in description.caller_inputs)
    return InputKind(keys=("examples",), replaces=inputs, read_event=_read_event)


def _read_event(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    if others := [f'"{key}"' for key in ("inputs", "text", "texts", "row", "rows") if key in event]:
        raise WrongFieldError(f'"examples" and {others[0]} exclude each other; send one of them')
    if not isinstance(event["examples"], list):
        raise WrongTypeError('"examples" must be a list of base64 strings')
    request = make_request(event["examples"], description, limits)
    return {"inputs": request.inputs, "strings": request.strings}


def parse_example(data: bytes, features: Sequence[Feature]) -> list[Value]:
    """Return the values of ``features`` in a tf.Example. Raises WrongExampleError, which names the feature."""
    try:
        spans = _locate_features(data, {feature.key.encode() for feature in features})
    except (_DamagedError, IndexError):
        raise WrongExampleError("the bytes are no tf.Example") from None
    values: list[Value] = []
    for feature in features:
        start, end = spans.get(feature.key.encode(), (0, 0))
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
    """Return the features that an example for the model must have."""
    assert description.examples is not None
    ports = {port.name: port for port in description.caller_inputs}
    return tuple(
        Feature(item.key, ports[item.name].dtype, ports[item.name].elements // description.batch, item.default)
        for item in description.examples.features
    )


def make_request(
    examples: Sequence[object],
    description: Description,
    limits: RequestLimits,
    require_answer: Callable[[int], None] = lambda count: None,
) -> Request:
    """Return a request made of serialized tf.Examples alone, as bytes or base64 text. Raises HandlerError.

    ``require_answer`` is called with the number of examples before they are read.
    """
    assert description.examples is not None
    count, where = len(examples), f'"{description.examples.name}"'
    if not count:
        raise WrongFieldError(f"{where} is empty; a tf.Example is needed")
    require_items({description.examples.name: count}, description, limits)
    if count != description.batch and not description.batched:
        raise WrongShapeError(f"{where} has {count} items; this model takes {description.batch} at a time")
    names, features = [item.name for item in description.examples.features], list_features(description)
    require_tensor_memory(names, count, description, limits)
    limits.require_memory(JSON_VALUE * count * sum(item.size for item in features if item.dtype == "string"))
    require_answer(count)
    columns: list[list[Value]] = [[] for _ in features]
    by_name = {port.name: port for port in description.caller_inputs}
    ports = [by_name[name] for name in names]
    for number, example in enumerate(examples):
        place = f"{where}[{number}]"
        if example == "":  # it has no features
            data = b""
        else:
            data = example if isinstance(example, bytes) else encoded_file(example, place, limits.encoded).data
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
    if (total := sum(len(text) for texts in strings.values() for text in texts)) > limits.characters * TEXTS_TOGETHER:
        raise TooLargeError(
            f"the strings have {total:,} bytes; at most {limits.characters * TEXTS_TOGETHER:,} are taken"
        )
    return Request((), inputs, description.name, signature=description.signature, strings=strings)


def _require_texts(texts: Sequence[bytes], where: str, limits: RequestLimits) -> None:
    """Require short strings of valid UTF-8, which the following steps expect."""
    for text in texts:
        if len(text) > limits.characters:
            raise TooLargeError(f"{where} has {len(text):,} bytes in one string; at most {limits.characters:,}")
        try:
            text.decode()
        except UnicodeDecodeError:
            raise NotTextError(f"{where} is not UTF-8") from None


def _locate_features(data: bytes, wanted: set[bytes]) -> dict[bytes, tuple[int, int]]:
    """Return the start and end of each ``wanted`` feature, by key. Raises _DamagedError.

    The last non-empty one of a key counts. Raises IndexError, too, where the bytes end in a number.
    """
    spans: dict[bytes, tuple[int, int]] = {}
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
                if data[feature[0]] not in _TAGS:  # checked even if a later feature replaces this one
                    raise _DamagedError
                spans[key] = feature
    return spans


def _parse_entry(data: bytes, at: int, end: int) -> tuple[bytes, tuple[int, int]]:
    """Return the key, and the start and end of its feature."""
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
        return b"".join([data[offset : offset + 4] for offset in range(at + 1, end, 5)])
    return _parse_integers(data[at:end], feature, one_by_one=True)


def _packed_floats(data: bytes, feature: Feature) -> bytes:
    if len(data) % 4:
        raise _DamagedError
    _require_count(len(data) // 4, feature)
    return data


def _parse_integers(data: bytes, feature: Feature, *, one_by_one: bool = False) -> bytes:
    """Parse varints in a row, each after its own tag if ``one_by_one``."""
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
        actual = "more" if count > feature.size else f"{count:,}"
        many = "value" if feature.size == 1 else "values"
        raise WrongExampleError(f'the feature "{feature.key}" must have {feature.size:,} {many}, not {actual}')


def _locate_field(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the start and end of the field whose length stands at ``at``. Raises _DamagedError beyond ``end``."""
    length = data[at]
    if length < 0x80:
        start = at + 1
    else:
        length, start = _parse_varint(data, at)
    if start + length > end:
        raise _DamagedError
    return start, start + length


def _parse_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at ``at``, of at most ten bytes, and its end."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _DamagedError
