"""Strings, for a model that makes numbers of them itself: nested lists of its own shape, with any number of items.

They become UTF-8, row-major, then a row of numbers for each item, and then the tensors of the feeds. A single text for
each item may also be sent as ``{"text": …}`` or ``{"texts": […]}``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import prod

from ..budget import TEXTS_TOGETHER, RequestLimits
from ..description import Description, StringInput
from ..errors import NotTextError, TooLargeError, TooManyImagesError, WrongFieldError, WrongShapeError, WrongTypeError
from ..request import File, Request
from ..text import LocatedText
from ..text.rows import choose_row_size, list_size_ports
from ..text.words import StringProgram
from ..typed import Any
from . import InputKind, RunContext
from .text import TEXTS, fill_rows, measure_rows, read_text_file, read_texts


def make_kind(description: Description) -> InputKind:
    """Return the kind of inputs of strings, by their own names."""
    kind = TEXTS if description.text_input else InputKind()
    return kind._replace(
        replaces=(description.text_input,),
        stands_alone=description.text_alone,
        read_event=_read_event,
        read_files=_read_files,
        prepare_request=_prepare_request,
        measure_lengths=lambda request, context: measure_rows(request) if _get_program(request, context).pads else [],
        fill_inputs=lambda part, context: fill_rows(part, _get_program(part, context).pads, context),
    )


def _read_files(files: Sequence[File], description: Description, limits: RequestLimits) -> dict[str, Any]:
    return {"strings": {description.text_input: (read_text_file(files, description, limits).encode(),)}}


def _read_event(event: dict[str, Any], description: Description, limits: RequestLimits) -> dict[str, Any]:
    if "inputs" in event:
        raise WrongFieldError('"inputs" and a text exclude each other; send one of them')
    strings, _ = read_strings({description.text_input: list(read_texts(event, limits))}, description, limits)
    return {"strings": strings}


def _prepare_request(request: Request, context: RunContext) -> Request:
    """Replace the strings by rows of numbers."""
    if not request.strings:
        return request
    began = time.perf_counter()
    description = context.describe_request(request)
    words = _get_program(request, context)
    sizes = list_size_ports(description)
    sizes = sizes if words.pads else [sizes[request.size]]
    count = max(map(len, request.strings.values()))
    limits, left = context.limits, context.count_seconds_left
    limits.require_memory(count * sum(port.size // port.shape[0] for port in sizes[-1].values()))
    rows = words.compute_rows(request.strings, sizes[-1], limits, left)
    located: tuple[LocatedText, ...] = ()
    if (tokens := words.tokens) is not None:
        most = sizes[-1][tokens.feed].shape[1]
        located = tokens.locate_words(request.strings[tokens.source], most, limits, left)
    # Each run has the shortest size for its texts, unless answers of different sizes could not be joined.
    size = request.size if description.has_fixed_outputs else request.size + choose_row_size(rows, sizes)
    seconds = {"decode": time.perf_counter() - began}
    return request._replace(strings={}, rows=rows, located=located, size=size, seconds=seconds)


def _get_program(request: Request, context: RunContext) -> StringProgram:
    program: StringProgram = context.model.words[context.describe_request(request).signature]
    return program


def read_strings(
    values: Mapping[str, object], description: Description, limits: RequestLimits
) -> tuple[dict[str, tuple[bytes, ...]], dict[str, int]]:
    """Return the strings of every input of strings, and its number of items. Raises HandlerError."""
    encoded: dict[str, tuple[bytes, ...]] = {}
    counts: dict[str, int] = {}
    for string_input in description.strings:
        flat, counts[string_input.name] = _flatten_strings(
            values[string_input.name], string_input, limits.items if description.batched else string_input.shape[0]
        )
        encoded[string_input.name] = tuple(_encode_string(text, f'"{string_input.name}"', limits) for text in flat)
    total = sum(len(text) for texts in encoded.values() for text in texts)
    if total > (most := limits.characters * TEXTS_TOGETHER):
        raise TooLargeError(f"the strings have {total:,} bytes; at most {most:,} are allowed at a time")
    return encoded, counts


def _flatten_strings(value: object, one: StringInput, most: int) -> tuple[list[object], int]:
    """Return the number of items and the strings of nested lists, or of a flat list where an item has one string."""
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


def _encode_string(value: object, where: str, limits: RequestLimits) -> bytes:
    if not isinstance(value, str):
        raise WrongTypeError(f"{where} must hold strings only")
    if len(value) > limits.characters:
        raise TooLargeError(f"{where} has {len(value):,} characters in one string; at most {limits.characters:,}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise NotTextError(f"{where} has half of a surrogate pair, which is no character") from None
