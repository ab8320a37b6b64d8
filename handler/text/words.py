"""What stands between a model's strings and its numbers: lower case, splitting, vocabularies, hashes.

The builder reads these ops off the model's graph and writes them down as steps, which are run here on the strings of a
request: item by item, so that no item's length is another's cost. The file ``model.words`` beside the library has a
line that says its kind, and then a line of JSON; for a model of several signatures one for each of those that the first
line names:

    inputs     what the model takes: "name", "shape" of one item, of strings
    constants  arrays that steps read: "shape", and "strings" or "numbers"
    tables     "keys" and "values", or where values count up the "first" of them
    steps      "op", the numbers of the values that it is "of", and its attributes: see strings.py and arrays.py
    outputs    which value each "feed" of the library gets; with a "pad", that is a row of the text's own length, which
               is filled up, and with "truncate" cut off where it is longer than the model takes
    checks     values that are -1 for a word that a model does not know which asserts that it knows all
    tokens     of a model that labels words: how they are found again in a text, see traced.py

Inputs, constants and what each step gives are values, numbered in this order.
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
from ..tuples import NamedTuple
from ..typed import TYPE_CHECKING, Any
from .arrays import OPS as ARRAY_OPS
from .arrays import Array, estimate_memory
from .strings import OPS as STRING_OPS
from .strings import compile_attributes

if TYPE_CHECKING:
    from ..description import Port
    from .traced import WordFinder

FILE = "model.words"
KIND = "words"
OPS = {**ARRAY_OPS, **STRING_OPS}

LONGEST = 200_000
"""Bytes of one string at most: cut into characters, through thirty steps, it takes 400 times as much memory."""
_OF_BYTES = ("left_pad", "right_pad", "separator")
"""Attributes that are strings of the model, and not words of this program."""


class StringTensor(NamedTuple):
    """A tensor of strings that the model takes. ``shape``: of one item, with its 1 in front."""

    name: str
    shape: tuple[int, ...]


class TextStep(NamedTuple):
    """``of``: the numbers of the values that it reads."""

    function: Callable[..., Any]
    of: tuple[int, ...]


class StringProgram(NamedTuple):
    """The steps from ``inputs`` to the feeds in ``outputs``, by the number of the value that each gets.

    ``pads``: of feeds that are rows of a text's own length, what fills up a shorter one; ``cut``: those of them whose
    longer rows are cut off, and not refused; ``tokens``: what finds words again in a text, where answers are of them.
    """

    inputs: tuple[StringTensor, ...]
    constants: tuple[Array, ...]
    steps: tuple[TextStep, ...]
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
        """What each feed gets for one item: the strings of each input, row-major. Raises HandlerError."""
        memory = 0
        values = [Array(one.shape, list(given)) for one, given in zip(self.inputs, item, strict=True)]
        values += self.constants
        try:
            for function, of in self.steps:
                require_time(seconds_left)
                found = function(*[values[number] for number in of])
                made = [found] if isinstance(found, Array) else found
                memory += sum(map(estimate_memory, made))
                limits.require_memory(memory)
                values += made
        except IndexError:
            raise UnfitTextError("a text is not one of those that the model knows") from None
        if any(-1 in values[number].values for number in self.checks):
            raise UnfitTextError("a word is none of those that the model knows")
        return {feed: values[number] for feed, number in self.outputs.items()}

    def compute_rows(
        self,
        given: Mapping[str, Sequence[bytes]],
        ports: Mapping[str, Port],
        limits: RequestLimits = LARGEST,
        seconds_left: Callable[[], float] = lambda: 1.0,
    ) -> tuple[dict[str, bytes], ...]:
        """Raw bytes of each item by feed, no more than the ``ports`` hold, which are those of the model's largest size.

        ``given``: the strings of each input, valid UTF-8. Raises HandlerError, with the place of the item.
        """
        sizes = [prod(one.shape) for one in self.inputs]
        count = len(given[self.inputs[0].name]) // (sizes[0] or 1)
        most = min(limits.characters, LONGEST)
        found: list[dict[str, bytes]] = []
        for number in range(count):
            item = [
                given[one.name][number * size : number * size + size]
                for one, size in zip(self.inputs, sizes, strict=True)
            ]
            try:
                if any(len(text) > most for texts in item for text in texts):
                    raise TextTooLongError(f"a text has more than {most:,} bytes, the most that are taken")
                arrays = self.compute_arrays(item, limits, seconds_left)
                found.append({feed: self._pack_row(array, ports[feed]) for feed, array in arrays.items()})
            except HandlerError as error:
                where = f" (item {number + 1} of {count})" if count > 1 else ""
                raise type(error)(error.message + where) from error.__cause__
        return tuple(found)

    def choose_size(self, rows: Sequence[Mapping[str, bytes]], sizes: Sequence[Mapping[str, Port]]) -> int:
        """The first of ``sizes`` that holds all ``rows``: each holds what the one before holds."""
        longest = {feed: max(len(row[feed]) for row in rows) for feed in self.outputs}
        return next(
            n
            for n, ports in enumerate(sizes)
            if all(longest[feed] <= _count_item_bytes(ports[feed]) for feed in longest)
        )

    def pad_rows(self, rows: Sequence[Mapping[str, bytes]], ports: Mapping[str, Port]) -> dict[str, bytes]:
        """Raw bytes of the feeds ``ports``, of as many items as there are ``rows``: shorter ones are filled up."""
        return {
            feed: b"".join(self._pad_row(row[feed], ports[feed]) if feed in self.pads else row[feed] for row in rows)
            for feed in self.outputs
        }

    def _pad_row(self, row: bytes, port: Port) -> bytes:
        element = struct.pack(f"<{port.format}", self.pads[port.name])
        return row + element * ((_count_item_bytes(port) - len(row)) // len(element))

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
    """What was prepared for the model in the file ``library``, by signature: "" of a model without several.

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
    """The steps of a prepared file. Raises ValueError, LookupError, TypeError."""
    head, _, body = data.partition(b"\n")
    if json.loads(head)["kind"] != KIND:
        raise ValueError("it is of another kind")
    recipe = json.loads(body)
    tables = [_parse_table(one) for one in recipe["tables"]]
    return StringProgram(
        tuple(StringTensor(one["name"], tuple(one["shape"])) for one in recipe["inputs"]),
        tuple(_parse_constant(one) for one in recipe["constants"]),
        tuple(_parse_step(one, tables) for one in recipe["steps"]),
        {one["feed"]: one["value"] for one in recipe["outputs"]},
        tuple(recipe["checks"]),
        {one["feed"]: one["pad"] for one in recipe["outputs"] if "pad" in one},
        frozenset(one["feed"] for one in recipe["outputs"] if one.get("truncate")),
        _parse_finder(recipe["tokens"]) if "tokens" in recipe else None,
    )


def _parse_finder(one: dict[str, Any]) -> WordFinder:
    from .traced import parse_finder

    return parse_finder(one)


def _count_item_bytes(port: Port) -> int:
    """Bytes of an item."""
    return port.size // port.shape[0]


def _encode_text(text: str) -> bytes:
    """Of what may be no UTF-8: the builder wrote such bytes as halves of surrogate pairs."""
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


def _parse_step(one: dict[str, Any], tables: Sequence[dict[Any, Any]]) -> TextStep:
    attributes = {key: value for key, value in one.items() if key not in ("op", "of")}
    for key in _OF_BYTES:
        if key in attributes:
            attributes[key] = _encode_text(attributes[key])
    if "pattern" in attributes:
        attributes = compile_attributes(attributes)
    if "table" in attributes:
        attributes["table"] = tables[attributes["table"]]
    function = OPS[one["op"]]
    return TextStep(partial(function, **attributes) if attributes else function, tuple(one["of"]))
