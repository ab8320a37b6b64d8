"""The steps from texts to the ids of the tokens that a model takes, and from these to the tensors of its feeds.

The builder prepares the encoder's file, ``model.text`` beside the library: a line of JSON with the ``kind`` of the
encoder and its options, and then the encoder's data. Each kind is a module here.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Sequence

from ..budget import LOCATED_TOKEN, TEXTS_TOGETHER, RequestLimits
from ..deadline import require_time
from ..description import Description
from ..errors import StartupError, TextTooLongError, TooLargeError
from ..named_tuples import NamedTuple
from ..typed import Any, Protocol

FILE = "model.text"
KINDS = ("wordpiece", "subwords")


class Encoding(NamedTuple):
    """The ids of the tokens of a text or a pair, special ones included.

    ``whole``: whether nothing was cut off. ``types``: for a pair, 0 or 1 for each token: the text that it is of.
    """

    ids: list[int]
    whole: bool
    types: Sequence[int] = ()


class TokenPlace(NamedTuple):
    """The place of a token: ``start`` to ``end`` in characters (Unicode code points) of the text as it was sent.

    ``word``: the number of its word, None for a token that is put around every text.
    """

    word: int | None
    start: int
    end: int


class LocatedText(NamedTuple):
    """A text with the place of each of its tokens."""

    text: str
    places: Sequence[TokenPlace]


class TextEncoder(Protocol):
    """One kind of tokenizer."""

    @property
    def share(self) -> int:
        """The number by which the limit of characters is divided."""
        ...

    def encode_text(self, text: str, longest: int) -> Encoding:
        """Return at most ``longest`` ids of ``text``, which contains no lone surrogates."""
        ...

    def encode_pair(self, first: str, second: str, longest: int) -> Encoding:
        """Return at most ``longest`` ids of a pair, whose longer text is cut off first."""
        ...

    def locate_tokens(self, text: str, longest: int) -> tuple[Encoding, list[TokenPlace]]:
        """Return the encoding of ``encode_text``, and the place of each token."""
        ...


class TextTokenizer(NamedTuple):
    """An encoder of texts with its limits, ``longest``: the most tokens of a text, special ones included.

    ``truncate``: whether a longer text is cut off, and not refused; ``pad``: the id that fills up a shorter text.
    """

    encoder: TextEncoder
    longest: int
    truncate: bool
    pad: int

    def encode_item(self, item: tuple[str, ...]) -> Encoding:
        """Return the ids of a text or of a pair of texts, whether or not they were cut off."""
        if len(item) == 1:
            return self.encoder.encode_text(item[0], self.longest)
        return self.encoder.encode_pair(item[0], item[1], self.longest)

    def encode_texts(
        self, items: Sequence[tuple[str, ...]], limits: RequestLimits, seconds_left: Callable[[], float]
    ) -> tuple[Encoding, ...]:
        """Return the ids of each text or pair. Raises TooLargeError, TextTooLongError, OutOfTimeError."""
        return tuple(self._encode_each(self.encode_item, items, limits, seconds_left))

    def locate_texts(
        self, items: Sequence[tuple[str, ...]], limits: RequestLimits, seconds_left: Callable[[], float]
    ) -> tuple[tuple[Encoding, ...], tuple[LocatedText, ...]]:
        """Return the ids of each text, and its tokens' places. Raises as ``encode_texts``, and OverBudgetError."""
        limits.require_memory(LOCATED_TOKEN * sum(min(4 * len(text) + 2, self.longest) for (text,) in items))
        located: list[LocatedText] = []

        def encode_and_locate(item: tuple[str, ...]) -> Encoding:
            (text,) = item
            encoding, places = self.encoder.locate_tokens(text, self.longest)
            located.append(LocatedText(text, places))
            return encoding

        return tuple(self._encode_each(encode_and_locate, items, limits, seconds_left)), tuple(located)

    def _encode_each(
        self,
        encode: Callable[[tuple[str, ...]], Encoding],
        items: Sequence[tuple[str, ...]],
        limits: RequestLimits,
        seconds_left: Callable[[], float],
    ) -> Iterator[Encoding]:
        most = limits.characters // self.encoder.share
        lengths = [len(text) for item in items for text in item]
        if max(lengths) > most or sum(lengths) > most * TEXTS_TOGETHER:
            raise TooLargeError(
                f"at most {most:,} characters are allowed in a text, and {TEXTS_TOGETHER} times as many in all"
            )
        for number, item in enumerate(items):
            require_time(seconds_left)
            encoding = encode(item)
            if not (encoding.whole or self.truncate):
                which = f"text {number + 1}" if len(items) > 1 else "the text"
                raise TextTooLongError(f"{which} has more than the {self.longest:,} tokens that the model takes")
            yield encoding


def open_texts(library: str, description: Description) -> TextTokenizer:
    """Read the tokenizer that the builder prepared for the model in the file ``library``. Raises StartupError."""
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
    """Return the tokenizer of a prepared file with ``options`` and ``data``, for at most ``most`` tokens.

    ``folder``: the place of the library of the ``tokenizers`` package, for a kind that needs it.
    """
    if options["kind"] not in KINDS:
        raise ValueError(f"it is of the unknown kind {options['kind']}")
    encoder: TextEncoder = importlib.import_module(f".{options['kind']}", __name__).read_encoder(options, data, folder)
    return TextTokenizer(encoder, min(options["length"] or most, most), options["truncate"], options["pad"])


def find_max_length(description: Description) -> int:
    """Return the most tokens that the model takes, in any of its sizes."""
    assert description.text is not None
    ids = description.text.ids
    return max(port.shape[-1] for sized in description.size_variants for port in sized.feeds if port.name == ids)
