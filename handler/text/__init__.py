"""Texts become the ids of tokens that a model takes, and these the tensors of its feeds.

What a text becomes, the file ``model.text`` beside the library says, which the builder prepared: a line of JSON with
the ``kind`` of the encoder and its options, and what it knows. Each kind is a module here.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence

from ..budget import LOCATED_TOKEN, TEXTS_TOGETHER
from ..deadline import require_time
from ..errors import StartupError, TextTooLongError, TooLargeError
from ..tuples import NamedTuple
from ..typed import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..budget import RequestLimits
    from ..description import Description, Port

FILE = "model.text"
KINDS = ("wordpiece", "subwords")


class Encoding(NamedTuple):
    """``ids``: of the tokens, with special ones; ``whole``: whether nothing of the text was cut off."""

    ids: list[int]
    whole: bool


class TokenPlace(NamedTuple):
    """Where a token stands. ``word``: the number of its word, None of a token that stands around every text; ``start``
    and ``end``: in characters (Unicode code points) of the text as it was sent.
    """

    word: int | None
    start: int
    end: int


class LocatedText(NamedTuple):
    """A text with the place of each of its tokens."""

    text: str
    places: Sequence[TokenPlace]


class TextEncoder(Protocol):
    """One kind of tokenizer. ``share``: of the characters that a text may have, it takes that part."""

    @property
    def share(self) -> int: ...

    def encode_text(self, text: str, longest: int) -> Encoding:
        """At most ``longest`` ids of ``text``, which has no half of a surrogate pair."""
        ...

    def locate_tokens(self, text: str, longest: int) -> tuple[Encoding, list[TokenPlace]]:
        """The same, and the place of each token."""
        ...


class TextTokenizer(NamedTuple):
    """What makes ids of texts. ``longest``: tokens of a text, with special ones; ``truncate``: whether a longer one is
    cut off; ``pad``: the id behind the end of a text.
    """

    encoder: TextEncoder
    longest: int
    truncate: bool
    pad: int

    def encode_texts(
        self, texts: Sequence[str], limits: RequestLimits, seconds_left: Callable[[], float]
    ) -> tuple[list[int], ...]:
        """The ids of each. Raises TooLargeError, TextTooLongError, OutOfTimeError."""
        return tuple(one.ids for one in self._encode_each(self.encoder.encode_text, texts, limits, seconds_left))

    def locate_texts(
        self, texts: Sequence[str], limits: RequestLimits, seconds_left: Callable[[], float]
    ) -> tuple[tuple[list[int], ...], tuple[LocatedText, ...]]:
        """The ids of each, and where its tokens stand. Raises as ``encoded`` does, and OverBudgetError."""
        limits.require_memory(LOCATED_TOKEN * sum(min(4 * len(text) + 2, self.longest) for text in texts))
        places: list[list[TokenPlace]] = []

        def located(text: str, longest: int) -> Encoding:
            found, where = self.encoder.locate_tokens(text, longest)
            places.append(where)
            return found

        ids = tuple(one.ids for one in self._encode_each(located, texts, limits, seconds_left))
        return ids, tuple(map(LocatedText, texts, places))

    def _encode_each(
        self,
        encode: Callable[[str, int], Encoding],
        texts: Sequence[str],
        limits: RequestLimits,
        seconds_left: Callable[[], float],
    ) -> Iterator[Encoding]:
        most = limits.characters // self.encoder.share
        if max(map(len, texts)) > most or sum(map(len, texts)) > most * TEXTS_TOGETHER:
            raise TooLargeError(
                f"at most {most:,} characters are allowed in a text, and {TEXTS_TOGETHER} times as many in all"
            )
        for number, text in enumerate(texts):
            require_time(seconds_left)
            found = encode(text, self.longest)
            if not (found.whole or self.truncate):
                which = f"text {number + 1}" if len(texts) > 1 else "the text"
                raise TextTooLongError(f"{which} has more than the {self.longest:,} tokens that the model takes")
            yield found


def open_texts(library: str, description: Description) -> TextTokenizer:
    """What was prepared for the model in the file ``library``. Raises StartupError."""
    folder = os.path.dirname(library)  # noqa: PTH120 - pathlib would be imported for this alone
    path = os.path.join(folder, FILE)  # noqa: PTH118
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            options, encoder = json.loads(file.readline()), file.read()
        return load_tokenizer(options, encoder, find_max_length(description), folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise StartupError(
            f"{path} cannot be read ({error}): build the bundle and the function with the same version of coldforge."
        ) from error


def load_tokenizer(options: dict[str, Any], data: bytes, most: int, folder: str) -> TextTokenizer:
    """The encoder of a prepared file, of ``options`` and ``data``, for a model that takes up to ``most`` tokens.

    ``folder``: where the library of the ``tokenizers`` package is, for a kind that needs it.
    """
    if options["kind"] not in KINDS:
        raise ValueError(f"it is of the unknown kind {options['kind']}")
    encoder: TextEncoder = importlib.import_module(f".{options['kind']}", __name__).read_encoder(options, data, folder)
    return TextTokenizer(encoder, min(options["length"] or most, most), options["truncate"], options["pad"])


def list_lengths(description: Description) -> list[int]:
    """How many tokens the model takes in each of its sizes."""
    assert description.text is not None
    ids = description.text.ids
    return [port.shape[-1] for sized in description.size_variants for port in sized.feeds if port.name == ids]


def find_max_length(description: Description) -> int:
    """How many tokens the model takes at most."""
    return max(list_lengths(description))


def choose_text_size(ids: Sequence[Sequence[int]], description: Description) -> int:
    """The shortest of the model's sizes that holds every one of ``ids``."""
    needed = max(map(len, ids))
    return min((length, number) for number, length in enumerate(list_lengths(description)) if length >= needed)[1]


def make_text_feeds(ids: Sequence[Sequence[int]], pad: int, description: Description) -> dict[str, bytes]:
    """The feeds of text, by name, for as many items, in the size that ``description`` is of: behind the end of a text
    there is ``pad``, and 0 in the mask.
    """
    text = description.text
    assert text is not None
    ports = {port.name: port for port in description.feeds}
    length = ports[text.ids].shape[-1]
    found = {text.ids: _pack_rows([[*row, *[pad] * (length - len(row))] for row in ids], ports[text.ids])}
    if text.mask:
        rows = [[1] * len(row) + [0] * (length - len(row)) for row in ids]
        found[text.mask] = _pack_rows(rows, ports[text.mask])
    if text.types:
        found[text.types] = bytes(ports[text.types].size // ports[text.types].shape[0] * len(ids))
    return found


def _pack_rows(rows: list[list[int]], port: Port) -> bytes:
    flat = [value for row in rows for value in row]
    return struct.pack(f"<{len(flat)}{port.format}", *flat)
