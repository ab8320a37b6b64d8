"""tokenizer.json: a tokenizer as Hugging Face's ``tokenizers`` saves it.

https://huggingface.co/docs/tokenizers: normalizer, pre_tokenizer, model, post_processor, added_tokens, padding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from builder.text.prepared import Prepared
from builder.text.wordpiece import MOST_SPECIAL, WordPiece

_PADS = ("[PAD]", "<pad>", "<|pad|>")


def read(content: str) -> Prepared:
    """Raises ValueError for what is no such file, or a kind of tokenizer that the function has no encoder for; other
    errors of looking things up for a file that is damaged.
    """
    data = json.loads(content)
    model = data["model"]
    if model.get("type", "WordPiece" if "max_input_chars_per_word" in model else "") != "WordPiece":
        raise ValueError(f"its model is {model.get('type')}; the function has WordPiece alone")
    normalizer, words = data.get("normalizer"), data.get("pre_tokenizer")
    normalizer = _only(normalizer, "normalizers")
    if (normalizer and normalizer["type"] != "BertNormalizer") or _kind(_only(words, "pretokenizers")) != "Bert":
        raise ValueError("it cuts texts into words in another way than BERT")
    lowercase = bool(normalizer and normalizer["lowercase"])
    strip = normalizer and normalizer.get("strip_accents")
    pieces: dict[str, int] = dict(model["vocab"])
    tokens = {token["content"]: token for token in data.get("added_tokens") or ()}
    pieces |= {content: token["id"] for content, token in tokens.items()}
    # Only outside of words could it tell whether one is normalised first, or stands alone.
    if len(tokens) > MOST_SPECIAL or any(t.get("normalized") or t.get("single_word") for t in tokens.values()):
        raise ValueError("it has too many added tokens, or tokens that are parts of words")
    before, after = _around(data.get("post_processor"), pieces)
    return WordPiece(
        pieces,
        pad=_pad(data.get("padding"), pieces),
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
    ).prepared()


def _only(value: Any, key: str) -> Any:
    """``value``, or what a sequence of one has in it."""
    if value and value["type"] == "Sequence" and len(value[key]) == 1:
        return value[key][0]
    return value


def _kind(value: Any) -> str:
    return str(value["type"]).removesuffix("PreTokenizer") if value else ""


def _around(processor: Any, pieces: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that stand before and after every text."""
    if processor is None:
        return (), ()
    if processor["type"] in ("BertProcessing", "RobertaProcessing"):
        return (processor["cls"][1],), (processor["sep"][1],)
    if processor["type"] != "TemplateProcessing":
        raise ValueError(f"its post-processor {processor['type']} is not known")
    template, special = processor["single"], processor["special_tokens"]
    places = [at for at, part in enumerate(template) if "Sequence" in part]
    types = [next(iter(part.values())).get("type_id", 0) for part in template]
    if len(places) != 1 or any(types):
        raise ValueError("its template for one text has several parts")
    ids = [special[part["SpecialToken"]["id"]]["ids"] if "SpecialToken" in part else [] for part in template]
    before, after = ids[: places[0]], ids[places[0] + 1 :]
    return tuple(number for one in before for number in one), tuple(number for one in after for number in one)


def _pad(padding: Any, pieces: Mapping[str, int]) -> int:
    if padding and padding.get("direction", "Right") != "Right":
        raise ValueError("it fills texts up at the left, which the function does not")
    if padding:
        return int(padding["pad_id"])
    return next((pieces[token] for token in _PADS if token in pieces), 0)
