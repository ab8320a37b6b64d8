"""tokenizer.json: the file in which Hugging Face's ``tokenizers`` saves a tokenizer.

https://huggingface.co/docs/tokenizers: normalizer, pre_tokenizer, model, post_processor, added_tokens, padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from builder.base.records import parse_json
from builder.importers.text import subwords
from builder.importers.text.prepared import PreparedTokenizer
from builder.importers.text.wordpiece import MOST_SPECIAL, WordPieceSpec

_PADS = ("[PAD]", "<pad>", "<|pad|>")


def read_tokenizer_json(content: str) -> PreparedTokenizer:
    """Return the tokenizer for the function's own WordPiece if that is equivalent, else for the package itself.

    Raises ValueError if the file is of another kind or pads texts at the left, and other lookup errors if it is
    damaged.
    """
    data = parse_json(content)
    special = {token["content"]: token["id"] for token in data.get("added_tokens") or ()}
    wordpiece = _make_wordpiece(data) if _is_plain(data) else None
    if wordpiece is not None:
        return wordpiece.prepare_file()
    vocabulary = data["model"]["vocab"]  # Unigram has a list, whose indices are the ids.
    pieces = vocabulary if isinstance(vocabulary, dict) else {piece: at for at, (piece, _) in enumerate(vocabulary)}
    return subwords.prepare_subwords(data, _find_pad_id(data.get("padding"), pieces | special))


def _is_plain(data: Mapping[str, Any]) -> bool:
    """Return whether it is a WordPiece that splits texts as BERT does, with few tokens of its own."""
    model, tokens = data["model"], data.get("added_tokens") or ()
    kind = model.get("type", "WordPiece" if "max_input_chars_per_word" in model else "")
    normalizer = _type_of(_unwrap_sequence(data.get("normalizer"), "normalizers"))
    words = _type_of(_unwrap_sequence(data.get("pre_tokenizer"), "pretokenizers"))
    # The function's WordPiece cannot tell whether such a token is normalised first, or stands alone.
    plain = len(tokens) <= MOST_SPECIAL and not any(t.get("normalized") or t.get("single_word") for t in tokens)
    return (kind, words) == ("WordPiece", "BertPreTokenizer") and normalizer in ("", "BertNormalizer") and plain


def _make_wordpiece(data: Mapping[str, Any]) -> WordPieceSpec | None:
    """Return the WordPiece, or None if its template has several parts."""
    model = data["model"]
    normalizer = _unwrap_sequence(data.get("normalizer"), "normalizers")
    lowercase = bool(normalizer and normalizer["lowercase"])
    strip = normalizer and normalizer.get("strip_accents")
    pieces: dict[str, int] = dict(model["vocab"])
    tokens = {token["content"]: token for token in data.get("added_tokens") or ()}
    pieces |= {content: token["id"] for content, token in tokens.items()}
    around = _find_surrounding_ids(data.get("post_processor"))
    if around is None:
        return None
    before, after = around
    return WordPieceSpec(
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


def _find_surrounding_ids(processor: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the ids before and after every text, or None if they are not constant."""
    if processor is None:
        return (), ()
    if processor["type"] == "BertProcessing":
        return (processor["cls"][1],), (processor["sep"][1],)
    if processor["type"] != "TemplateProcessing":
        return None
    template, special = processor["single"], processor["special_tokens"]
    places = [at for at, part in enumerate(template) if "Sequence" in part]
    if len(places) != 1 or any(next(iter(part.values())).get("type_id", 0) for part in template):
        return None
    ids = [special[part["SpecialToken"]["id"]]["ids"] if "SpecialToken" in part else [] for part in template]
    before, after = ids[: places[0]], ids[places[0] + 1 :]
    return tuple(number for group in before for number in group), tuple(number for group in after for number in group)


def _find_pad_id(padding: Any, pieces: Mapping[str, int]) -> int:
    if padding and padding.get("direction", "Right") != "Right":
        raise ValueError("it fills texts up at the left, which the function does not")
    if padding:
        return int(padding["pad_id"])
    return next((pieces[token] for token in _PADS if token in pieces), 0)
