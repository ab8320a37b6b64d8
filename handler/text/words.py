"""The steps from a model's strings to its numbers: lower case, splitting, vocabularies, hashes.

The builder writes these ops of the model's graph as steps, which are run here on the strings of a request: item by
item, so that the length of one does not slow down another. The file ``model.words`` beside the library has a line with
its kind, and then a line of JSON; a model of several signatures has a line for each that the first line names:

    inputs     the model's inputs of strings: "name", and "shape" of one item
    constants  arrays that steps read: "shape", and "strings" or "numbers"
    tables     "keys" and "values", or the "first" value where they count up
    steps      "op", "of": the numbers of the values that it reads, and its attributes: see the modules of ``OPS``
    outputs    the number of the value that each "feed" of the library gets; with a "pad", it is a row of the text's own
               length, which is filled up, and with "truncate" cut off if it is longer than the model takes
    checks     values in which -1 stands for a word that the model does not know, though it asserts that it knows all
    tokens     for a model that labels words: the steps to find them in a text, see traced.py

Inputs, constants and the results of steps are the values; they are numbered in this order.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

from ..budget import LARGEST, RequestLimits
from ..deadline import require_time
from ..errors import HandlerError, StartupError, TextTooLongError, UnfitTextError
from ..named_tuples import NamedTuple
from ..typed import TYPE_CHECKING, Any
from .arrays import OPS as ARRAY_OPS
from .arrays import Array, estimate_memory
from .strings import OPS as STRING_OPS
from .strings import compile_pattern
from .terms import OPS as TERM_OPS

if TYPE_CHECKING:
    from ..description import Port
    from .token_spans import WordFinder

FILE = "model.words"
KIND = "words"
OPS = {**ARRAY_OPS, **STRING_OPS, **TERM_OPS}

LONGEST = 200_000
"""The most bytes of a string: cut into characters, through thirty steps, it takes 400 times as much memory."""
_OF_BYTES = ("left_pad", "right_pad", "separator")
"""Attributes that are strings of the model, and become bytes."""


class StringProgram(NamedTuple):
    """The steps from ``inputs`` to the feeds of ``outputs``, which gives the number of each feed's value.

    ``inputs``: the shape of one item of each, with the batch of 1 in front. ``steps``: functions, each with the numbers
    of the values that it reads. ``pads``: the number that fills up short rows, for feeds with rows of a text's own
    length; ``cut``: those of them whose long rows are cut off, and not refused; ``tokens``: the finder of words, for
    answers that label words.
    """

    inputs: Mapping[str, tuple[int, ...]]
    constants: tuple[Array, ...]
    steps: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...]
    outputs: Mapping[str, int]
    checks: tuple[int, ...] = ()
    pads: Mapping[str, float] = {}
    cut: frozenset[str] = frozenset()
    tokens: WordFinder | None = None

    def compute_arrays(
        self,
        item: Sequence[Sequence[bytes]],
        limits: RequestLimits = LARGEST,
        seconds_left: Callable[[], float] = lambda: 1.0,
    ) -> dict[str, Array]:
        """Compute each feed's array from one item, the row-major strings of each input. Raises HandlerError."""
        memory = 0
        values = [Array(shape, list(strings)) for shape, strings in zip(self.inputs.values(), item, strict=True)]
        values += self.constants
        try:
            for function, of in self.steps:
                require_time(seconds_left)
                result = function(*[values[number] for number in of])
                results = [result] if isinstance(result, Array) else result
                memory += sum(map(estimate_memory, results))
                limits.require_memory(memory)
                values += results
        except IndexError:
            raise UnfitTextError("a text is not one of those that the model knows") from None
        if any(-1 in values[number].values for number in self.checks):
            raise UnfitTextError("a word is none of those that the model knows")
        return {feed: values[number] for feed, number in self.outputs.items()}

    def compute_rows(
        self,
        strings: Mapping[str, Sequence[bytes]],
        ports: Mapping[str, Port],
        limits: RequestLimits = LARGEST,
        seconds_left: Callable[[], float] = lambda: 1.0,
    ) -> tuple[dict[str, bytes], ...]:
        """Return each item's raw bytes by feed, at most what ``ports``, those of the largest size, hold.

        ``strings``: those of each input, valid UTF-8. Raises HandlerError, which names the item.
        """
        sizes = {name: prod(shape) for name, shape in self.inputs.items()}
        first = next(iter(sizes))
        count = len(strings[first]) // (sizes[first] or 1)
        most = min(limits.characters, LONGEST)
        rows: list[dict[str, bytes]] = []
        for number in range(count):
            item = [strings[name][number * size : number * size + size] for name, size in sizes.items()]
            try:
                if any(len(text) > most for texts in item for text in texts):
                    raise TextTooLongError(f"a text has more than {most:,} bytes, the most that are taken")
                arrays = self.compute_arrays(item, limits, seconds_left)
                rows.append({feed: self._pack_row(array, ports[feed]) for feed, array in arrays.items()})
            except HandlerError as error:
                place = f" (item {number + 1} of {count})" if count > 1 else ""
                raise type(error)(error.message + place) from error.__cause__
        return tuple(rows)

    def _pack_row(self, array: Array, port: Port) -> bytes:
        most, values, open_ = port.elements // port.shape[0], array.values, port.name in self.pads
        if port.name in self.cut:
            values = values[:most]
        size = len(values)
        if size > most or (size < most and not open_):
            raise TextTooLongError(f"a text becomes {size:,} numbers; the model takes {most:,}{' at most' * open_}")
        try:
            return struct.pack(f"<{size}{port.format}", *values)
        except (struct.error, OverflowError):
            raise UnfitTextError("a text becomes a number that the model cannot take") from None


def open_words(library: str) -> dict[str, StringProgram]:
    """Read the programs of the model in the file ``library`` by signature, "" if it has only one.

    Raises StartupError.
    """
    path = os.path.join(os.path.dirname(library), FILE)  # noqa: PTH118, PTH120 - pathlib would be imported for this alone
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head, *bodies = file.read().splitlines()
        names = dict(json.loads(head)).get("signatures", [""])
        return {name: parse_program(b"\n".join((head, body))) for name, body in zip(names, bodies, strict=True)}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise StartupError(
            f"{path} cannot be read ({error}): build the bundle and the function with the same version of coldforge."
        ) from error


def parse_program(data: bytes) -> StringProgram:
    """Parse the program in ``data``, a line of kind and one of JSON. Raises ValueError, LookupError, TypeError."""
    head, _, body = data.partition(b"\n")
    if json.loads(head)["kind"] != KIND:
        raise ValueError("it is of another kind")
    recipe = json.loads(body)
    tables = [_parse_table(table) for table in recipe["tables"]]
    return StringProgram(
        {tensor["name"]: tuple(tensor["shape"]) for tensor in recipe["inputs"]},
        tuple(_parse_constant(constant) for constant in recipe["constants"]),
        tuple(_parse_step(step, tables) for step in recipe["steps"]),
        {output["feed"]: output["value"] for output in recipe["outputs"]},
        tuple(recipe["checks"]),
        {output["feed"]: output["pad"] for output in recipe["outputs"] if "pad" in output},
        frozenset(output["feed"] for output in recipe["outputs"] if output.get("truncate")),
        _parse_finder(recipe["tokens"]) if "tokens" in recipe else None,
    )


def _parse_finder(one: dict[str, Any]) -> WordFinder:
    from .token_spans import parse_finder

    return parse_finder(one)


def _encode_text(text: str) -> bytes:
    """Encode ``text``; the builder wrote bytes that are not UTF-8 as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def _parse_constant(one: dict[str, Any]) -> Array:
    values = [*map(_encode_text, one["strings"])] if "strings" in one else one["numbers"]
    return Array(tuple(one["shape"]), values)


def _parse_table(one: dict[str, Any]) -> dict[Any, Any]:
    keys = map(_encode_text, one["keys"]) if one["strings"] else one["keys"]
    if "first" in one:
        return {key: value for value, key in enumerate(keys, one["first"])}
    values = map(_encode_text, one["values"]) if one["string_values"] else one["values"]
    return dict(zip(keys, values, strict=True))


def _parse_step(one: dict[str, Any], tables: Sequence[dict[Any, Any]]) -> tuple[Callable[..., Any], tuple[int, ...]]:
    attributes = {key: value for key, value in one.items() if key not in ("op", "of")}
    for key in _OF_BYTES:
        if key in attributes:
            attributes[key] = _encode_text(attributes[key])
    attributes = compile_pattern(attributes)
    if "table" in attributes:
        attributes["table"] = tables[attributes["table"]]
    function = OPS[one["op"]]
    return partial(function, **attributes) if attributes else function, tuple(one["of"])
