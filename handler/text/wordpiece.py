"""BERT's WordPiece in plain Python: it gives the ids of the ``tokenizers`` package, without its 12 MB.

A text is cut at special tokens. The parts between them are cleaned, and cut into words at spaces and around
punctuation. A word becomes the longest piece of the vocabulary that it begins with, then the longest that follows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain, pairwise

from ..named_tuples import NamedTuple
from ..typed import Any
from . import Encoding, TokenPlace
from .characters import CHINESE, MARKS, PUNCTUATION, REMOVED, WHITESPACE

CHUNK = 8_192
"""Characters that are processed together: of a text that is far too long, only the beginning is."""
_KEPT = 20_000
"""The most characters whose replacements are cached."""


class WordPiece(NamedTuple):
    """A vocabulary: ``pieces`` gives ids by text. ``most``: characters of a known word; ``widest``: of a piece."""

    pieces: dict[str, int]
    characters: _Characters
    special: dict[str, int]  # tokens that a text may name, such as [SEP]
    pattern: re.Pattern[str] | None  # of the special tokens
    before: list[int]  # the ids before and after every text
    after: list[int]
    pair: list[list[int]]  # the ids before, between and after the texts of a pair
    unknown: int
    prefix: str  # of a piece that continues a word
    most: int
    widest: int
    share: int = 1

    def encode_text(self, text: str, longest: int) -> Encoding:
        """Return at most ``longest`` ids of ``text``; the rest of it is not processed."""
        room = longest - len(self.before) - len(self.after)
        tokens: list[int] = []
        for ids in self._iterate_ids(text):
            tokens += ids
            if len(tokens) > room:
                break
        return Encoding([*self.before, *tokens[:room], *self.after], len(tokens) <= room)

    def encode_pair(self, first: str, second: str, longest: int) -> Encoding:
        """Return at most ``longest`` ids of a pair, whose longer text is cut off first."""
        before, between, after = self.pair
        room = longest - sum(map(len, self.pair))
        one, two = ([*chain.from_iterable(self._iterate_ids(text))] for text in (first, second))
        whole = len(one) + len(two) <= room
        if not whole:
            least = min(len(one), len(two), room // 2)
            most = room - least
            one, two = (one[:most], two[:least]) if len(one) > len(two) else (one[:least], two[:most])
        ids = [*before, *one, *between, *two, *after]
        second_part = len(two) + len(after)
        return Encoding(ids, whole, [0] * (len(ids) - second_part) + [1] * second_part)

    def locate_tokens(self, text: str, longest: int) -> tuple[Encoding, list[TokenPlace]]:
        """Return the encoding of ``encode_text``, and the place of each token."""
        room = longest - len(self.before) - len(self.after)
        tokens: list[int] = []
        places: list[TokenPlace] = []
        for number, (ids, spans) in enumerate(self._locate_words(text)):
            tokens += ids
            places += [TokenPlace(number, start, end) for start, end in spans]
            if len(tokens) > room:
                break
        before, after = ([TokenPlace(None, 0, 0)] * len(around) for around in (self.before, self.after))
        encoding = Encoding([*self.before, *tokens[:room], *self.after], len(tokens) <= room)
        return encoding, [*before, *places[:room], *after]

    def _iterate_ids(self, text: str) -> Iterator[list[int]]:
        at = 0
        for match in self.pattern.finditer(text) if self.pattern else ():
            yield from map(self._encode_word, self._iterate_words(text[at : match.start()]))
            yield [self.special[match[0]]]
            at = match.end()
        yield from map(self._encode_word, self._iterate_words(text[at:] if at else text))

    def _iterate_words(self, text: str) -> Iterator[str]:
        rest = ""
        for start in range(0, len(text), CHUNK):
            *words, rest = (rest + text[start : start + CHUNK].translate(self.characters)).split(" ")
            yield from filter(None, words)
            rest = rest[: self.most + 1]  # a longer word is unknown whatever follows
        if rest:
            yield rest

    def _locate_words(self, text: str) -> Iterator[tuple[list[int], list[tuple[int, int]]]]:
        """Yield the ids of each word, and the begin and end of each of its pieces."""
        at = 0
        for match in self.pattern.finditer(text) if self.pattern else ():
            yield from self._locate_pieces(text[at : match.start()], at)
            yield [self.special[match[0]]], [match.span()]
            at = match.end()
        yield from self._locate_pieces(text[at:], at)

    def _locate_pieces(self, text: str, first: int) -> Iterator[tuple[list[int], list[tuple[int, int]]]]:
        for word, origins in self._locate_letters(text, first):
            ends: list[int] = []
            ids = self._encode_word(word, ends)
            yield ids, [(origins[start], origins[end - 1] + 1) for start, end in pairwise([0, *ends])]

    def _locate_letters(self, text: str, first: int) -> Iterator[tuple[str, list[int]]]:
        """Yield the words of ``text``, which begins at ``first``, each with the places of its characters' origins."""
        letters: list[str] = []
        origins: list[int] = []
        for at, character in enumerate(text, first):
            for letter in self.characters[ord(character)]:
                if letter != " ":
                    letters.append(letter)
                    origins.append(at)
                elif letters:
                    yield "".join(letters), origins
                    letters, origins = [], []
            if len(letters) > self.most + 1:  # a longer word is unknown whatever follows
                del letters[self.most + 1 :], origins[self.most : -1]
        if letters:
            yield "".join(letters), origins

    def _encode_word(self, word: str, ends: list[int] | None = None) -> list[int]:
        """Return the ids of ``word``, and append the end of each piece to ``ends``."""
        if len(word) > self.most:
            return self._encode_unknown(word, ends)
        ids: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self.widest), start, -1):
                known = self.pieces.get(prefix + word[start:end])
                if known is not None:
                    break
            else:
                return self._encode_unknown(word, ends)
            ids.append(known)
            if ends is not None:
                ends.append(end)
            start, prefix = end, self.prefix
        return ids

    def _encode_unknown(self, word: str, ends: list[int] | None) -> list[int]:
        if ends is not None:
            ends[:] = [len(word)]
        return [self.unknown]


class _Characters(dict[int, str]):
    """The replacement of each character for ``str.translate``, which does not depend on its neighbours.

    It is without accents, in lower case, and between spaces if it is punctuation.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._clean, self._chinese = options["clean"], options["chinese"]
        self._accents, self._lowercase = options["accents"], options["lowercase"]

    def __missing__(self, code: int) -> str:
        replacement = self._convert_character(code)
        if len(self) < _KEPT:
            self[code] = replacement
        return replacement

    def _convert_character(self, code: int) -> str:
        if self._clean and code in REMOVED:
            return ""
        if code in WHITESPACE:
            return " "
        text = chr(code)
        if not self._accents:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if ord(c) not in MARKS)
        if self._lowercase:
            text = "".join(map(str.lower, text))
        text = "".join(f" {c} " if ord(c) in PUNCTUATION else c for c in text)
        return f" {text} " if self._chinese and code in CHINESE else text


def read_encoder(options: dict[str, Any], data: bytes, folder: str) -> WordPiece:
    """Read what builder/importers/text/tokenizer_files.py wrote. ``data``: a piece a line, in the order of ids."""
    pieces = data.decode().split("\n")
    special = options["special"]
    names = sorted(special, key=len, reverse=True)  # where two begin alike, the longer one is tried first
    return WordPiece(
        pieces=dict(zip(pieces, range(len(pieces)), strict=True)),
        characters=_Characters(options),
        special=special,
        pattern=re.compile("|".join(map(re.escape, names))) if names else None,
        before=options["before"],
        after=options["after"],
        pair=options["pair"],
        unknown=options["unknown"],
        prefix=options["prefix"],
        most=options["most"],
        widest=options["widest"],
    )
