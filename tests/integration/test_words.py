"""What TensorFlow does with strings in front of a graph, the function does: every op, over texts of many kinds."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.errors import ImportModelError
from builder.base.tf import import_tensorflow
from builder.config import FeedSpec, OutputSpec
from builder.importers.graph import FrozenGraph
from builder.importers.loaded import RawGraph
from builder.importers.lookup_tables import LookupTable
from builder.importers.rewrite import node_of
from builder.importers.strings.cut_strings import cut_words
from builder.importers.strings.probe_strings import ODD, arrange_strings, strings_like
from builder.importers.strings.regex import NotTranslatedError, translate_pattern
from builder.importers.strings.string_frontend import WordCut, encode_runs
from builder.importers.strings.string_ops import STEPS, STRING_STEPS
from builder.importers.xla_ops import is_compiled
from handler.description import Port
from handler.errors import UnfitTextError
from handler.text.fingerprint import compute_farmhash, compute_siphash
from handler.text.words import parse_program
from tests.support import needs
from tests.support.models import freeze, run_graph, save_keras
from tests.support.words import sized, tensors

pytestmark = pytest.mark.integration

tf = import_tensorflow()
keras: Any = needs.needs_module("keras")
L: Any = keras.layers
S: Any = tf.strings

WORDS = ["the", "cat", "sat", "on", "mat", "a b", "日本", "x"]
BUCKETS = 1 << 40

Item = tuple[int, ...]


def vectorized(**options: Any) -> Callable[[], Any]:
    return lambda: L.TextVectorization(**{"vocabulary": WORDS} | options)


def hashed(function: Callable[[Any], Any]) -> Callable[[], Any]:
    """What ``function`` makes of strings, as numbers."""
    return lambda: lambda x: S.to_hash_bucket_fast(function(x), BUCKETS)


def ragged(function: Callable[[Any], Any], width: int, default: Any = "") -> Callable[[], Any]:
    return lambda: lambda x: tf.identity(_numbers(function(x).to_tensor(default, shape=[None, width])))


def _numbers(x: Any) -> Any:
    return S.to_hash_bucket_fast(x, BUCKETS) if x.dtype == tf.string else x


def table_of_words(keys: list[str], values: list[Any], default: Any) -> Any:
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


def vocabulary_table() -> Any:
    keys = tf.lookup.KeyValueTensorInitializer(WORDS, tf.range(len(WORDS), dtype=tf.int64))
    return tf.lookup.StaticVocabularyTable(keys, 3).lookup


def words_to_words() -> Any:
    table = table_of_words(["the", "x"], ["cat", "日本"], "none")
    return lambda x: _numbers(table.lookup(x))


CASES: dict[str, tuple[Callable[[], Any], Item, str]] = {
    "multi_hot": (vectorized(output_mode="multi_hot"), (1,), "text"),
    "count": (vectorized(output_mode="count"), (1,), "text"),
    "tf_idf": (vectorized(output_mode="tf_idf", idf_weights=[0.5] * len(WORDS)), (1,), "text"),
    "int": (vectorized(output_sequence_length=8), (1,), "text"),
    "int_of_a_vector": (vectorized(output_sequence_length=8), (), "text"),
    "characters": (
        vectorized(vocabulary=["t", "t h", "日", "é"], split="character", ngrams=2, output_mode="count"), (), "text",
    ),
    "n_grams": (vectorized(vocabulary=["the cat", "cat"], ngrams=(2, 3), output_sequence_length=7), (1,), "text"),
    "no_split": (vectorized(split=None, standardize="lower", output_mode="int"), (1,), "text"),
    "as_it_is": (vectorized(standardize=None, output_sequence_length=3), (1,), "text"),
    "several_unknown": (lambda: L.StringLookup(vocabulary=WORDS, num_oov_indices=3, mask_token=""), (), "text"),
    "one_hot": (lambda: L.StringLookup(vocabulary=WORDS, output_mode="one_hot"), (1,), "text"),
    "hashing": (lambda: L.Hashing(10, mask_value="x"), (1,), "text"),
    "hashing_with_salt": (lambda: L.Hashing(10, salt=[133, 137]), (2,), "text"),
    "fingerprints": (
        lambda: lambda x: tf.bitcast(tf.raw_ops.Fingerprint(data=tf.reshape(x, [-1]), method="farmhash64"), tf.int64),
        (1,), "text",
    ),
    "vocabulary_table": (vocabulary_table, (2,), "text"),
    "words_to_words": (words_to_words, (), "text"),
    "lower_and_upper": (
        hashed(lambda x: S.join([S.lower(x, "utf-8"), S.upper(x, "utf-8"), S.upper(x)], "|")), (), "text",
    ),
    "regex": (hashed(lambda x: S.regex_replace(S.strip(x), r"<[^>]+>|\s+", "-")), (), "text"),
    "regex_once": (hashed(lambda x: S.regex_replace(x, r"(\w+) (\w)", r"\2-\1", replace_global=False)), (), "text"),
    "full_match": (lambda: lambda x: S.regex_full_match(x, r"[A-Z].*"), (), "text"),
    "parts": (hashed(lambda x: S.substr(x, 0, 2, unit="UTF8_CHAR")), (), "text"),
    "lengths": (lambda: lambda x: S.length(x, unit="UTF8_CHAR") - S.length(x), (), "text"),
    "numbers": (lambda: S.to_number, (2,), "fraction"),
    "whole_numbers": (lambda: lambda x: S.to_number(x, tf.int64) * 2, (), "whole"),
    "split": (ragged(lambda x: S.split(x, " ", maxsplit=2), 3), (), "text"),
    "split_at_spaces": (ragged(lambda x: S.split(x, maxsplit=2), 3), (), "text"),
    "padded_n_grams": (
        ragged(lambda x: S.ngrams(S.split(x), (3, 2), pad_values=("<", ">"), padding_width=1), 6), (), "text",
    ),
    "short_n_grams": (ragged(lambda x: S.ngrams(S.split(x), 4, preserve_short_sequences=True), 6), (), "text"),
    "code_points": (ragged(lambda x: S.unicode_decode(x, "UTF-8"), 9, 0), (), "text"),
    "offsets": (ragged(lambda x: S.unicode_decode_with_offsets(x, "UTF-8")[1], 9, -1), (), "text"),
    "joined": (hashed(lambda x: S.reduce_join(x, -1, separator="+")), (3,), "text"),
}  # fmt: skip


def raw_graph(call: Any, item: Item) -> RawGraph:
    concrete = tf.function(lambda x: call(x), autograph=False).get_concrete_function(
        tf.TensorSpec([None, *item], tf.string)
    )
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    definition = frozen.graph.as_graph_def()
    handles = {node_of(inner.name): outer for outer, inner in concrete.graph.captures}
    tables = {}
    for node in definition.node:
        if node.op == "LookupTableFindV2":
            handle = node_of(node.input[0])
            types = (tf.dtypes.as_dtype(node.attr[a].type) for a in ("Tin", "Tout"))
            found = tf.raw_ops.LookupTableExportV2(
                table_handle=handles[handle], **dict(zip(("Tkeys", "Tvalues"), types, strict=True))
            )
            tables[handle] = LookupTable.from_arrays(*(tensor.numpy() for tensor in found))
    asserts = any(operation.type == "Assert" for operation in concrete.graph.get_operations())
    known = {handle: one for handle, one in tables.items() if one is not None}
    return RawGraph(
        definition, {"text": frozen.inputs[0].name}, {"y": frozen.outputs[0].name}, tables=known, asserts=asserts
    )


@functools.cache
def cut_of(case: str) -> WordCut:
    make, item, _ = CASES[case]
    raw = raw_graph(make(), item)
    return cut_words(raw, {"text": (2, *item)}, [raw.fetches["y"]])


@pytest.mark.parametrize("case", CASES)
def test_the_function_does_what_tensorflow_does(case: str) -> None:
    _, item, kind = CASES[case]
    cut = cut_of(case)
    texts = [*(ODD if kind == "text" else ()), *strings_like(WORDS, 300, kind, 99)]
    (source,) = cut.sources.values()
    encode_runs(cut, [{source: arrange_strings(texts, item)}])
    assert not any("tring" in node.op or "Lookup" in node.op for node in cut.raw.graph_def.node)
    assert len(cut.raw.feeds) == 1


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("the cat\t\n.,A"), max_size=60),
        min_size=1,
        max_size=9,
    )
)
@pytest.mark.parametrize(
    "case", ["multi_hot", "int", "characters", "n_grams", "several_unknown", "regex", "lower_and_upper"]
)
def test_any_text(case: str, texts: list[str]) -> None:
    cut, (_, item, _) = cut_of(case), CASES[case]
    (source,) = cut.sources.values()
    encode_runs(cut, [{source: arrange_strings(texts, item)}])


PATTERNS = (
    r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']', r"<[^>]+>", r"\s+", r"https?://\S+", r"[^a-z ]",
    r"^\s+|\s+$", r"@\w+",
    r"\d{2,3}", r"(?:ab)+", r"a+?b", r"[[:punct:]]", r"[^\x00-\x7f]+", r"\bthe\b", r".$", r"é|日", r"[\d.]+", r"\D\W\S",
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("ab <>the.é日 \n\v\t12"), max_size=30),
        min_size=1,
        max_size=8,
    )
)
def test_a_translated_pattern_finds_what_re2_finds(texts: list[str]) -> None:
    for pattern in PATTERNS:
        found = re.compile(translate_pattern(pattern).pattern, re.ASCII)
        expected = [one.decode() for one in S.regex_replace(texts, pattern, "_").numpy()]
        assert [found.sub("_", text) for text in texts] == expected, pattern
        whole = re.compile(translate_pattern(pattern, whole=True).pattern, re.ASCII)
        matches = S.regex_full_match(texts, pattern).numpy().tolist()
        assert [whole.fullmatch(text) is not None for text in texts] == matches, pattern


@given(
    st.text(max_size=12).map(lambda text: "".join(f"[{text}]"))
    | st.text(st.sampled_from("ab()[]*+?{}1,|^$.\\dws-:"), max_size=12)
)
@settings(deadline=None, max_examples=300)
def test_what_re2_does_not_take_is_not_translated(pattern: str) -> None:
    try:
        found = translate_pattern(pattern, whole=True)
        pattern.encode()
    except (NotTranslatedError, UnicodeEncodeError):
        return
    texts = ["", "a", "b", "ab", "aab]", "a1", "-", ":", "[", "^", "aabb", "d", "ws", "1,1", "\\"]
    expected = S.regex_full_match(texts, pattern).numpy().tolist()  # raises for what RE2 does not take
    matches = [re.compile(found.pattern, re.ASCII).fullmatch(text) is not None for text in texts]
    assert matches == expected


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=200)
def test_hashes_are_tensorflows(texts: list[bytes], first: int, second: int) -> None:
    most = (1 << 62) + 1
    key = [one - 2**64 if one >= 2**63 else one for one in (first, second)]
    fast = S.to_hash_bucket_fast(tf.constant(texts), most).numpy().tolist()
    assert [compute_farmhash(text) % most for text in texts] == fast
    strong = S.to_hash_bucket_strong(tf.constant(texts), most, key).numpy().tolist()
    assert [compute_siphash(text, (first, second)) % most for text in texts] == strong


REFUSED: dict[str, tuple[Callable[[], Any], Item, str]] = {
    "an_op_that_is_not_known": (
        hashed(tf.io.decode_base64), (), r"DecodeBase64 .*does not know it.*\n.*text -> \[DecodeBase64\]",
    ),
    "a_pattern": (hashed(lambda x: S.regex_replace(x, "(a+)+b", "")), (), r"its pattern .* a repeat of more than"),
    "a_pattern_that_matches_nothing": (hashed(lambda x: S.regex_replace(x, "a*", "")), (), "it may match nothing"),
    "another_size_for_each_text": (vectorized(), (), "has another size for each text"),
    "what_others_decide": (hashed(lambda x: S.reduce_join(S.split(x).to_tensor("_"), -1)), (), "alone is not what"),
    "bytes_of_a_character": (hashed(lambda x: S.substr(x, 0, 2)), (), "may cut a character"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_function_does_not_do_is_refused_by_name(case: str) -> None:
    make, item, why = REFUSED[case]
    raw = raw_graph(make(), item)
    with pytest.raises(ImportModelError, match=why):
        verified_cut(raw, item)


def verified_cut(raw: RawGraph, item: Item, kind: str = "text") -> WordCut:
    cut = cut_words(raw, {"text": (2, *item)}, [raw.fetches["y"]])
    (source,) = cut.sources.values()
    encode_runs(cut, [{source: arrange_strings(strings_like(WORDS, 30, kind, 1), item)}])
    return cut


def open_model(folder: Path, *layers: Any) -> tuple[Any, Path]:
    """A model that begins with texts of any length."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((1,), dtype="string", name="text"), L.TextVectorization(vocabulary=WORDS)])
    for layer in layers:
        model.add(layer)
    return model, save_keras(model, folder / "m.keras")


def frozen(path: Path, **options: Any) -> FrozenGraph:
    feeds = (FeedSpec("text", lengths=(6,)),)
    return freeze(path, path.parent / "out", **{"batch": 3, "feeds": feeds} | options)


LAYERS: dict[str, Callable[[], list[Any]]] = {
    "recurrent": lambda: [L.Bidirectional(L.LSTM(3))],
    "pooled": lambda: [L.GlobalAveragePooling1D()],
}


@pytest.mark.parametrize("layers", ["recurrent", "pooled"])
def test_a_text_of_any_length_answers_as_alone(layers: str, tmp_path: Path) -> None:
    model, path = open_model(tmp_path, L.Embedding(10, 4, mask_zero=True), *LAYERS[layers](), L.Dense(2))
    graph = frozen(path)
    (feed,) = [port.spec for port in graph.feeds]
    assert (feed.name, feed.shape) == ("text", (3, 6))
    words = parse_program(graph.words_path.read_bytes())
    (table,) = json.loads(graph.words_path.read_bytes().partition(b"\n")[2])["tables"]
    assert table == {"strings": True, "keys": WORDS, "first": 2}  # in the vocabulary's order, as TensorFlow has none
    texts = ["The cat sat!", "on", "the mat x zebra the cat"]
    size, made = sized(words, {"text": [text.encode() for text in texts]}, [{"text": ports(graph)["text"]}])
    ids = np.frombuffer(made["text"], feed.dtype).reshape(feed.shape)
    assert (size, ids[1].tolist()) == (0, [5, 0, 0, 0, 0, 0])
    (answers,) = run_graph(graph, {"text": ids}).values()
    for text, answer in zip(texts, answers, strict=True):
        np.testing.assert_allclose(answer, model(tf.constant([[text]]))[0], atol=1e-6)


def test_a_text_that_is_cut_off_answers_as_its_beginning(tmp_path: Path) -> None:
    model, path = open_model(tmp_path, L.Embedding(10, 4, mask_zero=True), *LAYERS["recurrent"](), L.Dense(2))
    graph = frozen(path, feeds=(FeedSpec("text", lengths=(6,), truncate=True),))
    words = parse_program(graph.words_path.read_bytes())
    texts = ["the cat sat on the mat", "the cat sat on the mat and on it sat a cat", "sat " * 500]
    made = tensors(words, {"text": [text.encode() for text in texts]}, {"text": ports(graph)["text"]})
    (answers,) = run_graph(graph, {"text": np.frombuffer(made["text"], np.int64).reshape(3, 6)}).values()
    for text, answer in zip(texts, answers, strict=True):
        beginning = " ".join(text.split()[:6])
        np.testing.assert_allclose(answer, model(tf.constant([[beginning]]))[0], atol=1e-6)


TAGGED = (OutputSpec("tags", None, "tokens", labels=("O", "X")),)


def words_of(text: str, graph: FrozenGraph) -> list[str]:
    """The words that the function finds in ``text``, as they stand there."""
    tokens = parse_program(graph.words_path.read_bytes()).tokens
    assert tokens is not None
    return [text[place.start : place.end] for place in tokens.find_places(text, 100)]


@pytest.mark.parametrize(
    ("options", "lengths", "words"),
    [
        ({}, (6,), ["Don't", "stop-believing", "İn", "BERLIN", "Ä"]),
        ({"output_sequence_length": 4}, (), ["Don't", "stop-believing", "İn", "BERLIN", "Ä"]),
        ({"standardize": None, "split": "character"}, (6,), [*"  Don't  stop-believing\tİn BERLIN, (Ä)!"]),
        ({"standardize": lambda text: S.regex_replace(text, "([,!])", r" \1 ")}, (6,),
            ["Don't", "stop-believing", "İn", "BERLIN", ",", "(Ä)", "!"]),
        ({"standardize": lambda text: S.strip(S.upper(text, "utf-8"))}, (6,),
            ["Don't", "stop-believing", "İn", "BERLIN,", "(Ä)!"]),
    ],
)  # fmt: skip
def test_where_words_stand_is_known(
    options: dict[str, Any], lengths: tuple[int, ...], words: list[str], tmp_path: Path
) -> None:
    text = keras.Input((1,), dtype="string", name="text")
    ids = L.TextVectorization(vocabulary=[*WORDS, *"dont"], **options)
    network = keras.Model(text, L.Embedding(20, 2, mask_zero=True)(ids(text)))
    network.export(tmp_path / "saved", verbose=False)
    feeds = (FeedSpec("text", lengths=lengths),) if lengths else ()
    graph = frozen(tmp_path / "saved", feeds=feeds, outputs=TAGGED)
    assert words_of("  Don't  stop-believing\tİn BERLIN, (Ä)!", graph) == words
    assert [one.tokens for one in graph.strings] == ["text"]


UNTOLD: dict[str, tuple[dict[str, Any], str]] = {
    "pairs of words": ({"ngrams": 2}, "other numbers behind those of the words"),
    "another splitting": ({"split": lambda text: S.split(text, ",")}, "not split at white space"),
    "what comes before": (
        {"standardize": lambda text: S.join([text, tf.constant("end")], " ")}, "StringJoin stands before the splitting",
    ),
    "counts": ({"output_mode": "count"}, "another number than in a text|other numbers behind"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNTOLD)
def test_where_words_stand_is_not_known(case: str, tmp_path: Path) -> None:
    options, why = UNTOLD[case]
    text = keras.Input((1,), dtype="string", name="text")
    length = {} if "output_mode" in options else {"output_sequence_length": 6}
    ids = L.TextVectorization(vocabulary=WORDS, **length, **options)
    model = keras.Model(text, L.Reshape((-1, 1))(ids(text)))
    model.export(tmp_path / "saved", verbose=False)
    with pytest.raises(ImportModelError, match=rf'kind = "tokens" answers where each word stands[^\n]*({why})'):
        frozen(tmp_path / "saved", feeds=(), outputs=TAGGED)


def ports(graph: FrozenGraph) -> dict[str, Port]:
    return {p.spec.name: Port(p.spec.name, p.spec.dtype, p.spec.shape, p.spec.size) for p in graph.feeds}


OPEN_REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "no_mask": ([L.Embedding(10, 4), L.GlobalAveragePooling1D()], {}, r"off by .*: Embedding\(mask_zero=True\)"),
    "an_answer_for_each_word": ([L.Embedding(10, 4, mask_zero=True)], {}, "has to have one size for all texts"),
    "the_ids": ([], {}, "has to have one size for all texts"),
    "no_lengths": (
        [L.Embedding(10, 4, mask_zero=True), L.GlobalAveragePooling1D()],
        {"feeds": ()},
        r"for which lengths it is compiled: lengths = \[16, 64, 256\] for 'text'",
    ),
    "another_input": (
        [L.Embedding(10, 4), L.GlobalAveragePooling1D()],
        {"feeds": (FeedSpec("other", lengths=(6,)),)},
        "names 'other', which is not an input",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OPEN_REFUSED)
def test_a_text_of_any_length_that_cannot_be_filled_up(case: str, tmp_path: Path) -> None:
    layers, options, why = OPEN_REFUSED[case]
    _, path = open_model(tmp_path, *layers)
    with pytest.raises(ImportModelError, match=why):
        frozen(path, **options)


def test_crosses_of_words_and_numbers(tmp_path: Path) -> None:
    colour, city = (keras.Input((1,), dtype="string", name=name) for name in ("colour", "city"))
    hour = keras.Input((1,), dtype="int64", name="hour")
    layers = [
        L.HashedCrossing(10**6)((colour, city)),
        L.HashedCrossing(50, output_mode="one_hot")((city, hour)),
    ]
    model = keras.Model([colour, city, hour], L.Concatenate()([keras.ops.cast(one, "float32") for one in layers]))
    model.export(tmp_path / "saved", verbose=False)
    graph = freeze(tmp_path / "saved", tmp_path / "out", batch=4)
    given = {"colour": ["red", "", "日本", "x" * 40], "city": ["Ulm", "Köln", "a b", "x" * 100]}
    hours = np.array([[7], [-3], [2**40], [0]])
    sent = {name: [text.encode() for text in texts] for name, texts in given.items()}
    made = tensors(parse_program(graph.words_path.read_bytes()), sent, ports(graph))
    specs = {port.spec.name: port.spec for port in graph.feeds}
    feeds = {name: np.frombuffer(data, specs[name].dtype).reshape(specs[name].shape) for name, data in made.items()}
    (answer,) = run_graph(graph, feeds | {"hour": hours}).values()
    columns = {name: tf.constant([[text] for text in texts]) for name, texts in given.items()}
    np.testing.assert_array_equal(answer, model(columns | {"hour": tf.constant(hours)}))


def test_lengths_where_none_are_needed(tmp_path: Path) -> None:
    text = keras.Input((1,), dtype="string", name="text")
    counts = L.TextVectorization(vocabulary=WORDS, output_mode="count")(text)
    path = save_keras(keras.Model(text, L.Dense(2)(counts)), tmp_path / "m.keras")
    with pytest.raises(ImportModelError, match="'text' lengths, but what the model makes of a text there always has"):
        frozen(path)


def test_lengths_of_numbers(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,), name="text"), L.Dense(2)])
    with pytest.raises(ImportModelError, match="'text' lengths, and it does not take strings"):
        frozen(save_keras(model, tmp_path / "m.keras"))


def test_every_step_is_let_in_with_a_saved_model() -> None:
    """Ragged counts were not: an export that counts words was refused before its strings were looked at."""
    assert {op for op in STEPS if not is_compiled(op)} <= STRING_STEPS


def test_a_vocabulary_without_a_place_for_other_words() -> None:
    lookup, embedding = L.StringLookup(vocabulary=WORDS, num_oov_indices=0), L.Embedding(len(WORDS), 2)
    raw = raw_graph(lambda x: embedding(lookup(x)), (2,))
    words = parse_program(verified_cut(raw, (2,), "known").recipe.to_bytes())
    ids = {"text": Port("text", "int64", (1, 2), 16)}
    assert tensors(words, {"text": [b"the", "日本".encode()]}, ids)["text"] == np.array([0, 6]).tobytes()
    with pytest.raises(UnfitTextError, match="none of those that the model knows"):
        tensors(words, {"text": [b"the", b"zebra"]}, ids)


def test_a_recipe_is_the_same_every_time() -> None:
    make, item, _ = CASES["int"]
    raw = raw_graph(make(), item)
    first, second = (cut_words(raw, {"text": (2, *item)}, [raw.fetches["y"]]) for _ in range(2))
    assert first.recipe.to_bytes() == second.recipe.to_bytes()
    words = parse_program(first.recipe.to_bytes())
    assert words.compute_arrays([[b"The CAT!"]])["text"].values[:3] == [2, 3, 0]
    assert np.array(first.shapes["text"]).tolist() == [2, 8]
