"""Tokenizers in the function against Hugging Face's ``tokenizers``: token by token, in every script."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.project import HOME, Project, cache_folder
from builder.base.targets import ARM64, host_target
from builder.config import ModelSpec, Source, TextSpec
from builder.importers.text import make_encoder
from builder.importers.text.patterns import search_cost
from builder.package.tokenizers_library import LOCK, TokenizersPackage, fetch_tokenizers, tokenizers_parts
from builder.pipeline.docker.docker_run import CACHE, INSIDE, build_mounts, tokenizer_paths
from handler.answers import tokens
from handler.answers.tokens import Word
from handler.budget import RequestLimits, require_comparisons
from handler.errors import TextTooLongError, UnfitTextError
from handler.events import answer_event
from handler.model import Model
from handler.server import Server
from handler.text import LocatedText, TokenPlace, subwords
from handler.text.characters import MARKS
from handler.text.subwords import Subwords, load_package
from tests.support import abi_library, vocabulary
from tests.support.http import Client
from tests.support.tokenizers import LINES, trained

pytestmark = [pytest.mark.integration, pytest.mark.network]

SCRIPTS = (
    (0x20, 0x7F), (0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x1100, 0x1200),
    (0x1E00, 0x2100), (0x2000, 0x2070), (0x3000, 0x3100), (0x4E00, 0x5000), (0xAC00, 0xB000), (0xF900, 0x10000),
    (0x1F300, 0x1F700), (0x1D100, 0x1D200), (0x20000, 0x20100), (0xE000, 0xE010), (0xE0000, 0xE0080),
)  # fmt: skip
ODD = (
    "", " ", "\0", "a\0b", "x" * 99, "x" * 100, "x" * 101, "y" * 100_000, "[SEP]", "[CLS][SEP] [sep]", "[[MASK]]",
    "e\u0301 \u0301e \u0344", "İı ẞß ΑΣ ﬁ", "👩‍👩‍👧‍👦 🇩🇪 ☺️", "\u200b\u200d\ufeff\ufffd\xad",
    "\x85\x0b\x1c\u2028a\u3000b",
    "天天 a天b 々 ｶﾞ", "한국어 각", "क्षि ക്ഷ", "שָׁלוֹם مُحَمَّد", "a-b_c@d#e^f`g~h", "…“”—«»¿¡",
    "\u166d\u1b7d\u2e52 \U00011938",
)  # fmt: skip


@pytest.fixture(scope="module")
def package() -> TokenizersPackage:
    return fetch_tokenizers(cache_folder(), host_target())


@pytest.fixture(scope="module")
def library(package: TokenizersPackage) -> Any:
    return load_package(str(package.folder))


def test_a_container_reads_the_package_that_was_fetched_before(library: Any, tmp_path: Path) -> None:
    """It has no network. Another processor's bundle needs both packages."""
    text = TextSpec(tmp_path / "tokenizer.json")
    (tmp_path / "model.toml").touch()
    (tmp_path / "scratch").mkdir()
    for kind, packages in (("unigram", 2), ("wordpiece", 0)):
        (tmp_path / "tokenizer.json").write_text(trained(library, kind).to_str(), encoding="utf-8")
        file, *folders = tokenizer_paths(text, cache_folder(), ARM64)
        assert (file, len(folders)) == (text.file, packages)
        spec = ModelSpec(tmp_path / "model.toml", "m", "1", Source("keras", tmp_path / "m.keras"), text=text)
        mounts = build_mounts(spec, Project(tmp_path), tmp_path / "m.keras", tmp_path, tmp_path / "scratch", [*folders])
        there = {mount.target for mount in mounts if not mount.writable}
        assert there >= {CACHE / "tokenizers" / folder.name for folder in folders} | {INSIDE / LOCK.relative_to(HOME)}


KINDS = ("wordpiece", "wordpiece cased", "wordpiece raw", "bpe", "unigram")


@pytest.fixture(scope="module")
def pairs(library: Any, package: TokenizersPackage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The package's own tokenizer of each kind, and the function's encoder of what it saved."""
    found = {}
    for kind in KINDS:
        theirs, path = trained(library, kind), tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
        theirs.save(str(path))
        ours = make_encoder(TextSpec(path, package=package.folder, pairs=True), 1_000_000)
        assert type(ours.encoder).__name__ == ("WordPiece" if kind.startswith("wordpiece") else "Subwords")
        found[kind] = theirs, ours.encoder
    return found


def same(pair: Any, text: str) -> None:
    theirs, ours = pair
    placed = words if reordered(text) else places
    theirs.no_truncation()
    wanted = theirs.encode(text)
    assert ours.encode_text(text, 1_000_000) == (wanted.ids, True, ()), ascii(text[:200])
    found, where = ours.locate_tokens(text, 1_000_000)
    assert (found, placed(where)) == ((wanted.ids, True, ()), placed(of(wanted))), ascii(text[:200])
    for longest in (2, 3, 7):
        theirs.enable_truncation(longest)
        cut, whole = theirs.encode(text), len(wanted.ids) <= longest
        assert ours.encode_text(text, longest) == (cut.ids, whole, ()), ascii(text[:200])
        found, where = ours.locate_tokens(text, longest)
        assert (found, placed(where)) == ((cut.ids, whole, ()), placed(of(cut))), ascii(text[:200])


WORDS = st.lists(st.sampled_from([*" ".join(LINES[:9]).split(), "[SEP]", "犬", "\0"]), max_size=9).map(" ".join)


@pytest.mark.parametrize("kind", KINDS)
@given(first=WORDS, second=WORDS, longest=st.integers(4, 30))
def test_pairs_as_the_package_cuts_them(pairs: Any, kind: str, first: str, second: str, longest: int) -> None:
    theirs, ours = pairs[kind]
    theirs.no_truncation()
    whole = len(theirs.encode(first, second).ids) <= longest
    theirs.enable_truncation(longest)
    wanted = theirs.encode(first, second)
    assert ours.encode_pair(first, second, longest) == (wanted.ids, whole, wanted.type_ids)


def of(found: Any) -> list[TokenPlace]:
    return [TokenPlace(word, *span) for word, span in zip(found.word_ids, found.offsets, strict=True)]


def places(found: list[TokenPlace]) -> list[TokenPlace]:
    return found


def words(found: list[TokenPlace]) -> list[int | None]:
    """The words alone."""
    return [place.word for place in found]


def reordered(text: str) -> bool:
    """Whether marks that are not taken away might change their order. The package gives such a mark its neighbour's
    place then: a mark that is younger than the package's tables, or a part of a note of music.
    """
    return any(unicodedata.combining(c) and ord(c) not in MARKS for c in unicodedata.normalize("NFD", text))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_the_package_s_in_every_script(pairs: dict[str, Any], kind: str) -> None:
    draw = random.Random(7)
    for text in (*LINES, " ".join(LINES), *ODD):
        same(pairs[kind], text)
    for _ in range(500):
        pieces = []
        for _ in range(draw.randint(1, 8)):
            first, last = draw.choice(SCRIPTS)
            pieces.append("".join(chr(draw.randrange(first, last)) for _ in range(draw.randint(1, 9))))
        same(pairs[kind], draw.choice((" ", "", "[SEP]", "\n")).join([draw.choice(LINES), *pieces]))


@given(st.text(max_size=60))
@settings(max_examples=100)
def test_tokens_of_any_text_are_the_package_s(pairs: dict[str, Any], text: str) -> None:
    for pair in pairs.values():
        same(pair, text)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_words_are_whole_whatever_the_tokenizer(pairs: dict[str, Any], kind: str) -> None:
    """Emoji, marks that are characters of their own, and scripts without spaces; what is punctuation differs."""
    text = " \u5929 caf\u00e9 cafe\u0301 \U0001f469\u200d\U0001f467 \u0939\u0942\u0901 \ufb01n \u260e\ufe0f \ud55c"
    assert [text[word.start : word.end] for word in words_of(pairs[kind], text)] == text.split()
    for line in (*LINES, *ODD[:-3]):
        end = 0
        for word in words_of(pairs[kind], line):
            assert end <= word.start < word.end <= len(line), ascii(line[:200])
            end = word.end


def words_of(pair: Any, text: str) -> list[Word]:
    _, ours = pair
    return list(tokens.find_words(LocatedText(text, ours.locate_tokens(text, 1_000_000)[1])))


def of_patterns(model: Any = None, **parts: Any) -> bytes:
    """A tokenizer.json, of words, and of ``parts``."""
    model = model or {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    return json.dumps({"version": "1.0", "added_tokens": [], "decoder": None, "model": model} | parts).encode()


def splitting(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


UNBOUNDED = {"growth": 1, "cost": 0, "slope": 0, "slowest": ""}
PANICS = "a" * 40 + "!"


@pytest.fixture(scope="module")
def panicking(package: TokenizersPackage) -> Subwords:
    """A tokenizer that gives up on PANICS, which the builder would refuse."""
    return subwords.read_encoder(
        UNBOUNDED, of_patterns(pre_tokenizer=splitting(r"(a+)+$|\w+|\s+")), str(package.folder)
    )


def test_a_text_on_which_the_package_panics_is_refused(panicking: Subwords) -> None:
    for _ in range(2):
        with pytest.raises(UnfitTextError):
            panicking.encode_text(PANICS, 9)
        with pytest.raises(UnfitTextError):
            panicking.locate_tokens(PANICS, 9)
        assert panicking.encode_text("b a", 9).ids == [0, 0, 1]


@pytest.mark.parametrize(
    "model",
    [
        {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"},
        {
            "type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 9,
        },
        {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": None},
    ],
)  # fmt: skip
def test_a_text_that_a_tokenizer_has_no_token_for_is_refused(package: TokenizersPackage, model: Any) -> None:
    found = subwords.read_encoder(UNBOUNDED, of_patterns(model), str(package.folder))
    assert found.encode_text("a", 9).ids == [0]
    with pytest.raises(UnfitTextError):
        found.encode_text("b", 9)


def test_a_message_on_which_the_package_panics_fails_alone(
    panicking: Subwords, package: TokenizersPackage, tmp_path: Path
) -> None:
    library = abi_library.build(tmp_path, abi_library.text_description())
    vocabulary.write_prepared(tmp_path)
    model = Model(str(library))
    model.texts = model.texts._replace(encoder=panicking)
    client = Client(Server({model.description.name: model}, RequestLimits()))
    texts = ["a", PANICS, "a a", PANICS, "b"]
    records = [
        {"messageId": str(number), "eventSource": "aws:sqs", "body": json.dumps({"text": text})}
        for number, text in enumerate(texts)
    ]
    answered = answer_event({"Records": records}, client.server, client.call())
    assert answered == {"batchItemFailures": [{"itemIdentifier": "1"}, {"itemIdentifier": "3"}]}
    status, refused = client.post("/predict", {"text": PANICS})
    assert (status, refused["error"]["code"]) == (422, "unfit_text")
    assert not client.failures


def test_a_text_for_which_a_pattern_takes_too_long_is_refused(package: TokenizersPackage, tmp_path: Path) -> None:
    pattern, path = r"\s+[xz]", tmp_path / "tokenizer.json"
    doubled = {"type": "Replace", "pattern": {"String": "a"}, "content": "a " * 4}
    path.write_bytes(of_patterns(pre_tokenizer=splitting(pattern), normalizer=doubled))
    found = make_encoder(TextSpec(path, package=package.folder), 9).encoder
    assert found.share == 80
    assert found.encode_text(" " * 2_000 + "b", 9).ids == [0]
    with pytest.raises(TextTooLongError, match=re.escape(pattern)):
        found.encode_text(" " * 20_000 + "b", 9)


def grown(length: int) -> tuple[str, ...]:
    """Texts in which all but the last of a pattern that ends with a c is found, and none without a c."""
    return "a" * length + "!c", "ab" * (length // 2) + "!c"


PARTS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", ".", r"\w", "(?!a)", "$", r"\b"]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "+?", "*+"])).map(
            lambda pair: f"({pair[0]}){pair[1]}" if len(pair[0]) > 1 else "".join(pair)
        )
    ),
    max_leaves=6,
)


@given(PARTS.flatmap(lambda part: st.sampled_from([part, part + "c", f"(?:{part})c|."])))
@settings(max_examples=60, deadline=None)
def test_a_pattern_that_is_accepted_never_gives_up(library: Any, pattern: str) -> None:
    """The package does where it takes ten million steps at one place: the square of 5,000, or 2 to the power of 24."""
    try:
        cost, slope = search_cost(pattern)
    except ValueError:
        return
    made = library.Tokenizer.from_str(of_patterns(pre_tokenizer=splitting(pattern)).decode())
    for text in grown(5_000):
        require_comparisons([text], cost, slope, pattern)
        made.encode(text)


def test_a_wheel_for_another_processor_is_taken_as_well(package: TokenizersPackage, tmp_path: Path) -> None:
    other = fetch_tokenizers(tmp_path, ARM64)
    assert other.library.read_bytes()[18:20] == b"\xb7\0"  # EM_AARCH64
    assert other.version == package.version
    part, *crates = tokenizers_parts(other)
    assert part.wheel
    assert "aarch64" in part.wheel.file
    assert "Apache License" in part.texts[0]
    assert {"onig", "regex"} & {crate.name for crate in crates}
    assert all(crate.licence and crate.inside == (part.files[0].path,) for crate in crates)
