"""The files that a tokenizer is saved in, and what the function's own encoders (handler/text) read in their place.

These are tokenizer.json, in which Hugging Face's ``tokenizers`` saves a tokenizer (its fields are described at
https://huggingface.co/docs/tokenizers), and vocab.txt, a vocabulary of BERT with a piece of a word on each line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from builder.base.records import parse_json
from builder.importers.text.patterns import measure_limits

PACKAGE_KIND = "subwords"
"""The kind of the tokenizers that the ``tokenizers`` package runs in the function: see handler/text/subwords.py."""

_UNKNOWN, _FIRST, _LAST, _PAD = "[UNK]", "[CLS]", "[SEP]", "[PAD]"
_SPECIAL = (_UNKNOWN, _FIRST, _LAST, _PAD, "[MASK]")
_PADS = (_PAD, "<pad>", "<|pad|>")
_MOST_SPECIAL = 64
"""The largest number of tokens that a text may name, as each is searched for at every place."""


@dataclass(frozen=True)
class PreparedTokenizer:
    """Data of a tokenizer for the module ``kind`` of handler/text; ``pad``: the id that fills up texts.

    ``added``: the number of special tokens around each text or pair.
    """

    kind: str
    options: Mapping[str, Any]
    data: bytes
    pad: int
    added: int


@dataclass(frozen=True)
class _WordPieceSpec:
    """A tokenizer for handler/text/wordpiece.py; fields besides ``pieces`` and ``pad`` are options of its file."""

    pieces: Mapping[str, int]
    pad: int
    unknown: int
    clean: bool = True  # whether control characters are removed
    chinese: bool = True  # whether each Chinese character is a word
    accents: bool = False  # whether accents are kept
    lowercase: bool = True
    special: Mapping[str, int] = field(default_factory=dict)  # ids of the tokens that a text may name
    before: tuple[int, ...] = ()  # ids before and after every text
    after: tuple[int, ...] = ()
    pair: tuple[tuple[int, ...], ...] = ()  # ids before, between and after the texts of a pair
    prefix: str = "##"
    most: int = 100  # the largest number of characters in a word

    def prepare_file(self) -> PreparedTokenizer:
        """Return the prepared file. Raises ValueError for a vocabulary that is empty or has invalid ids."""
        ids = self.pieces.values()
        if not ids or min(ids) < 0 or max(ids) > 10 * len(ids) + 1_000:
            raise ValueError("its vocabulary is empty, or numbers its pieces with gaps")
        lines = [""] * (max(ids) + 1)
        for piece, number in self.pieces.items():
            if "\n" not in piece:  # No word has a line break.
                lines[number] = piece
        options = vars(self) | {"widest": max(map(len, lines)) or 1}
        del options["pieces"], options["pad"]
        added = sum(map(len, self.pair or (self.before, self.after)))
        return PreparedTokenizer("wordpiece", options, "\n".join(lines).encode(), self.pad, added)


def read_vocabulary(content: str, *, lowercase: bool, pairs: bool = False) -> PreparedTokenizer:
    """Read ``content`` as BERT's own tokenizer does; ``pairs``: for pairs of texts.

    Raises ValueError if one of BERT's tokens is missing.
    """
    pieces = {line.rstrip("\r"): number for number, line in enumerate(content.rstrip("\n").split("\n"))}
    if missing := [token for token in _SPECIAL[:4] if token not in pieces]:
        raise ValueError(f"it has no {' and no '.join(missing)}, so it is not a vocabulary of BERT")
    return _WordPieceSpec(
        pieces,
        pad=pieces[_PAD],
        unknown=pieces[_UNKNOWN],
        accents=not lowercase,
        lowercase=lowercase,
        special={token: pieces[token] for token in _SPECIAL if token in pieces},
        before=(pieces[_FIRST],),
        after=(pieces[_LAST],),
        pair=((pieces[_FIRST],), (pieces[_LAST],), (pieces[_LAST],)) if pairs else (),
    ).prepare_file()


def read_tokenizer_json(content: str, *, pairs: bool = False) -> PreparedTokenizer:
    """Return the tokenizer for the function's own WordPiece if that is equivalent, else for the package itself.

    ``pairs``: it is for pairs of texts.

    Raises ValueError if the file is of another kind or pads texts at the left, and other lookup errors if it is
    damaged.
    """
    data = parse_json(content)
    special = {token["content"]: token["id"] for token in data.get("added_tokens") or ()}
    wordpiece = _make_wordpiece(data, pairs) if _is_plain(data) else None
    if wordpiece is not None:
        return wordpiece.prepare_file()
    vocabulary = data["model"]["vocab"]  # Unigram has a list, whose indices are the ids.
    pieces = vocabulary if isinstance(vocabulary, dict) else {piece: at for at, (piece, _) in enumerate(vocabulary)}
    return _prepare_subwords(data, _find_pad_id(data.get("padding"), pieces | special), pairs)


def _is_plain(data: Mapping[str, Any]) -> bool:
    """Return whether it is a WordPiece that splits texts as BERT does, with few tokens of its own."""
    model, tokens = data["model"], data.get("added_tokens") or ()
    kind = model.get("type", "WordPiece" if "max_input_chars_per_word" in model else "")
    normalizer = _type_of(_unwrap_sequence(data.get("normalizer"), "normalizers"))
    words = _type_of(_unwrap_sequence(data.get("pre_tokenizer"), "pretokenizers"))
    # The function's WordPiece cannot tell whether such a token is normalised first, or stands alone.
    plain = len(tokens) <= _MOST_SPECIAL and not any(t.get("normalized") or t.get("single_word") for t in tokens)
    return (kind, words) == ("WordPiece", "BertPreTokenizer") and normalizer in ("", "BertNormalizer") and plain


def _make_wordpiece(data: Mapping[str, Any], pairs: bool) -> _WordPieceSpec | None:
    """Return the WordPiece, or None if its template is not like BERT's."""
    model = data["model"]
    normalizer = _unwrap_sequence(data.get("normalizer"), "normalizers")
    lowercase = bool(normalizer and normalizer["lowercase"])
    strip = normalizer and normalizer.get("strip_accents")
    pieces: dict[str, int] = dict(model["vocab"])
    tokens = {token["content"]: token for token in data.get("added_tokens") or ()}
    pieces |= {content: token["id"] for content, token in tokens.items()}
    around = _find_surrounding_ids(data.get("post_processor"), "A")
    pair = _find_surrounding_ids(data.get("post_processor"), "AB") if pairs else ()
    if around is None or pair is None:
        return None
    before, after = around
    return _WordPieceSpec(
        pieces,
        pad=_find_pad_id(data.get("padding"), pieces),
        unknown=pieces[model["unk_token"]],
        clean=bool(normalizer and normalizer["clean_text"]),
        chinese=bool(normalizer and normalizer["handle_chinese_chars"]),
        accents=not (lowercase if strip is None else strip),
        lowercase=lowercase,
        special={content: token["id"] for content, token in tokens.items()},
        before=before,
        after=after,
        pair=pair,
        prefix=model["continuing_subword_prefix"],
        most=model["max_input_chars_per_word"],
    )


def _unwrap_sequence(value: Any, key: str) -> Any:
    """Return the only element if ``value`` is a sequence of one, else ``value``."""
    if value and value["type"] == "Sequence" and len(value[key]) == 1:
        return value[key][0]
    return value


def _type_of(value: Any) -> str:
    return str(value["type"]) if value else ""


def _find_surrounding_ids(processor: Any, texts: str) -> tuple[tuple[int, ...], ...] | None:
    """Return the ids before, between and after ``texts``, "A" or "AB", or None if they are not as BERT's.

    The types of tokens have to be 0, and 1 from the second text on.
    """
    if processor is None:
        return ((), ()) if texts == "A" else None
    if processor["type"] == "BertProcessing":
        return ((processor["cls"][1],), *[(processor["sep"][1],)] * len(texts))
    if processor["type"] != "TemplateProcessing":
        return None
    special, found, groups = processor["special_tokens"], "", [()]
    for part in processor["single" if texts == "A" else "pair"]:
        ((kind, one),) = part.items()
        if kind == "Sequence":
            found += one["id"]
            groups.append(())
        else:
            groups[-1] += tuple(special[one["id"]]["ids"])
        if one.get("type_id", 0) != int("B" in found):
            return None
    return tuple(groups) if found == texts else None


def _find_pad_id(padding: Any, pieces: Mapping[str, int]) -> int:
    if padding and padding.get("direction", "Right") != "Right":
        raise ValueError("it fills texts up at the left, which the function does not")
    if padding:
        return int(padding["pad_id"])
    return next((pieces[token] for token in _PADS if token in pieces), 0)


def _prepare_subwords(data: Mapping[str, Any], pad: int, pairs: bool) -> PreparedTokenizer:
    """Return the data of a tokenizer.json without truncation and padding, which the function does itself."""
    unpadded = {**data, "truncation": None, "padding": None}
    text = json.dumps(unpadded, ensure_ascii=False, separators=(",", ":"))
    limits = measure_limits(data.get("normalizer"), data.get("pre_tokenizer"))
    added = _count_special_tokens(data.get("post_processor"), pairs)
    return PreparedTokenizer(PACKAGE_KIND, limits, text.encode(), pad, added)


def _count_special_tokens(processor: Any, pairs: bool) -> int:
    """Return the number of special tokens that are added to a text, or to a pair."""
    if not processor:
        return 0
    if processor["type"] == "Sequence":
        return sum(_count_special_tokens(part, pairs) for part in processor["processors"])
    if processor["type"] == "TemplateProcessing":
        return sum("SpecialToken" in part for part in processor["pair" if pairs else "single"])
    return {"BertProcessing": 2 + pairs, "RobertaProcessing": 2 + 2 * pairs}.get(processor["type"], 0)
