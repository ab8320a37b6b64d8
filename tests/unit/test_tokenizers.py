"""Tokenizers that a model.toml names, on their way into model.text."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import ImportModelError
from builder.config import TextSpec
from builder.importers.text import make_encoder, needs_package, prepare_tokenizer
from tests.support import vocabulary
from tests.support.vocabulary import PIECES, SPECIAL, ids


def tokenizer(**changes: Any) -> dict[str, Any]:
    """As Hugging Face's package saves a tokenizer of BERT."""
    cls, sep = (PIECES.index(name) for name in ("[CLS]", "[SEP]"))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    template = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    special = {
        name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (("[CLS]", cls), ("[SEP]", sep))
    }
    found = {
        "version": "1.0",
        "truncation": {"max_length": 6, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": [{"id": number, "content": name} | plain for number, name in enumerate(SPECIAL)],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": template, "pair": [], "special_tokens": special},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {piece: number for number, piece in enumerate(PIECES)},
        },
    }  # fmt: skip
    return found | changes


def written(folder: Path, content: Any) -> TextSpec:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return TextSpec(path)


def test_a_tokenizer_and_its_vocabulary_prepare_the_same(tmp_path: Path) -> None:
    text = TextSpec(None, vocabulary.write(tmp_path))
    (one, its), (other, others) = (
        p.split(b"\n", 1) for p in (prepare_tokenizer(written(tmp_path, tokenizer())), prepare_tokenizer(text))
    )
    assert json.loads(one) == json.loads(other)
    assert its == others
    assert b'"length": 9' in prepare_tokenizer(TextSpec(None, text.vocabulary, length=9))


@pytest.mark.parametrize(
    ("changes", "text", "pieces"),
    [
        ({"normalizer": None}, "Good bad", ["[UNK]", "bad"]),
        ({"normalizer": None}, "é 天good", ["é", "天", "##g", "##o", "##o", "##d"]),
        ({"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}}, "bad", ["bad"]),
        ({"normalizer": {"type": "Sequence", "normalizers": [tokenizer()["normalizer"]]}}, "BAD", ["bad"]),
        ({"normalizer": tokenizer()["normalizer"] | {"strip_accents": False}}, "É", ["é"]),
        ({"normalizer": tokenizer()["normalizer"] | {"lowercase": False}}, "É é", ["[UNK]", "é"]),
        ({"normalizer": tokenizer()["normalizer"] | {"clean_text": False}}, "b\0ad bad", ["[UNK]", "bad"]),
        ({"added_tokens": []}, "[SEP]", ["[UNK]", "s", "##e", "##p", "[UNK]"]),
    ],
)
def test_what_a_tokenizer_says_is_done(tmp_path: Path, changes: Any, text: str, pieces: list[str]) -> None:
    assert make_encoder(written(tmp_path, tokenizer(**changes)), 99).encoder.encode_text(text, 99).ids == ids(*pieces)


def test_without_a_template_nothing_is_added(tmp_path: Path) -> None:
    found = make_encoder(written(tmp_path, tokenizer(post_processor=None)), 99)
    assert found.encoder.encode_text("good bad", 99).ids == ids("good", "bad")[1:-1]


def pair_template(*types: int) -> dict[str, Any]:
    """[CLS] A [SEP] B [SEP], of tokens with these types."""
    names = (
        {"SpecialToken": {"id": "[CLS]"}},
        {"Sequence": {"id": "A"}},
        {"SpecialToken": {"id": "[SEP]"}},
        {"Sequence": {"id": "B"}},
        {"SpecialToken": {"id": "[SEP]"}},
    )
    parts = [
        {kind: {**one, "type_id": number} for kind, one in part.items()}
        for part, number in zip(names, types, strict=True)
    ]
    return tokenizer()["post_processor"] | {"pair": parts}


def test_a_pair_has_tokens_of_its_own_around_it(tmp_path: Path) -> None:
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    for processor in (pair_template(0, 0, 0, 1, 1), bert):
        text = replace(written(tmp_path, tokenizer(post_processor=processor)), pairs=True)
        found = make_encoder(text, 99).encode_item(("good film", "bad"))
        assert found == ([*ids("good", "film"), *ids("bad")[1:]], True, [0, 0, 0, 0, 1, 1])
        with pytest.raises(ImportModelError, match="length is 3, and 3 special tokens alone"):
            prepare_tokenizer(replace(text, length=3))


@pytest.mark.parametrize("processor", [pair_template(0, 0, 0, 0, 0), tokenizer()["post_processor"], None])
def test_other_pairs_are_for_the_package(tmp_path: Path, processor: Any) -> None:
    text = written(tmp_path, tokenizer(post_processor=processor))
    assert [needs_package(text), needs_package(replace(text, pairs=True))] == [False, True]


def test_the_pad_is_the_tokenizer_s(tmp_path: Path) -> None:
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_id": 4, "pad_type_id": 0, "pad_token": "[MASK]"}
    assert make_encoder(written(tmp_path, tokenizer(padding=padding)), 9).pad == 4
    assert make_encoder(written(tmp_path, tokenizer()), 9).pad == 0
    assert make_encoder(replace(written(tmp_path, tokenizer(padding=padding)), pad=2), 9).pad == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, r"cannot be read: No such file"),
        ("{", r"cannot be used: .*Expecting property name"),
        ({}, r"cannot be used: KeyError: 'model'"),
        (tokenizer(padding={"direction": "Left", "pad_id": 0}), r"fills texts up at the left"),
        (tokenizer(model=tokenizer()["model"] | {"vocab": {"a": 10**9}}), r"numbers its pieces with gaps"),
        (tokenizer(model=tokenizer()["model"] | {"unk_token": "<unk>"}), r"KeyError: '<unk>'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, content: Any, why: str) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(ImportModelError, match=f"The tokenizer {path} .*{why}"):
        prepare_tokenizer(TextSpec(path))


def test_a_vocabulary_that_is_not_of_bert_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("[UNK]\n[PAD]\na\n", encoding="utf-8")
    with pytest.raises(ImportModelError, match=r"has no \[CLS\] and no \[SEP\]"):
        prepare_tokenizer(TextSpec(None, path))


def test_a_length_that_special_tokens_fill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match="length is 2, and 2 special tokens alone"):
        prepare_tokenizer(TextSpec(None, vocabulary.write(tmp_path), length=2))


SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
FAST = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt4, llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    + SPACES,
    "deepseek": r"[!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACES,
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "clip": r"<\|startoftext\|>|'s|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "numbers": r"\p{N}{1,3}|[一-龥]+|[0-9]{3}|\b(?<=a)\x{300}(?<name>b)?",
    "never given back": r"[^\r\n\p{L}]?+\p{L}++|\s++|(?>a+)|[]a&&[^[:alpha:]]]+",
}
SLOW = {
    "gpt4o": r"[^\r\n\p{L}]?[\p{Lu}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}" + SPACES,
    "smiles": r"(\[[^\]]+]|Br?|Cl?|N|O|\(|\)|>>?|\%[0-9]{2}|[0-9])",
    "from the right": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:[^\p{N}]|$))",
    "spaces within": r"(?:a|\s+(?!\S)|\s+)b",
}
REFUSED = (
    r"(a+)+$|\w+|\s+", r"(a|aa)+b", r"(a*)*b", r"\s+\s+x", r"(?=a*a*b)c", r"(?i)(a+)+b", r"(?:a?){30}a{30}",
    r"a?" * 20 + "b", r"a{1,3}{1,3}b", r"a{,20}b", r"a{20000}", r"(a)\1", r"(?<n>a)\g<n>", r"(?x)( a + ) +b",
    r"\p{L}+?\p{L}+?x", "(" * 60 + "a" + ")" * 60, "[a", "(a", "a)", "*a", r"\R+", "(?~a)",
)  # fmt: skip


def splitting(folder: Path, pattern: str) -> TextSpec:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return written(folder, tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}, split]}))


def limits_of(text: TextSpec) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(prepare_tokenizer(text).partition(b"\n")[0])
    return found


@pytest.mark.parametrize("pattern", FAST.values(), ids=FAST)
def test_patterns_that_take_time_as_texts_are_long(tmp_path: Path, pattern: str) -> None:
    found = limits_of(splitting(tmp_path, pattern))
    assert (found["slope"], found["slowest"]) == (0, pattern)
    assert 0 < found["cost"] < 200


@pytest.mark.parametrize("pattern", SLOW.values(), ids=SLOW)
def test_patterns_that_take_the_square_of_it(tmp_path: Path, pattern: str) -> None:
    assert 0 < limits_of(splitting(tmp_path, pattern))["slope"] < 20


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_whose_time_has_no_bound_is_refused_by_name(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ImportModelError, match=re.escape(repr(pattern))):
        prepare_tokenizer(splitting(tmp_path, pattern))


def test_what_a_tokenizer_puts_into_texts_counts(tmp_path: Path) -> None:
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    steps = [double, {"type": "Sequence", "normalizers": [double] * 13}, {"type": "NFC"}]
    text = written(tmp_path, tokenizer(normalizer={"type": "Sequence", "normalizers": steps}))
    assert limits_of(text)["growth"] == 2**14


def test_what_unicode_makes_longer_counts_for_a_slow_pattern(tmp_path: Path) -> None:
    longest = max(len(unicodedata.normalize("NFKD", chr(point))) for point in range(sys.maxunicode + 1))
    text = splitting(tmp_path, "a+b")
    plain = limits_of(text)
    assert text.file
    content = json.loads(text.file.read_text(encoding="utf-8"))
    composed = limits_of(written(tmp_path, content | {"normalizer": {"type": "NFKC"}}))
    assert (composed["cost"], composed["slope"]) == (longest * plain["cost"], longest**2 * plain["slope"])
    assert composed["growth"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}},
        {"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 0}},
        {"normalizer": {"type": "NFKC"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"post_processor": {"type": "ByteLevel"}},
        {"added_tokens": [{"id": 99, "content": "x", "normalized": True}]},
        {"added_tokens": [{"id": 99 + at, "content": f"<{at}>"} for at in range(65)]},
    ],
)
def test_other_tokenizers_are_for_the_package(tmp_path: Path, changes: Any) -> None:
    text = written(tmp_path, tokenizer(**changes))
    options, data = prepare_tokenizer(text).split(b"\n", 1)
    assert json.loads(options)["kind"] == "subwords"
    assert json.loads(data) == tokenizer(**changes) | {"truncation": None}
    assert needs_package(text)
    assert not needs_package(written(tmp_path, tokenizer()))
    with pytest.raises(ImportModelError, match=r"tokenizers\.abi3\.so cannot be loaded"):
        make_encoder(written(tmp_path, tokenizer(**changes)), 8)
