"""A bundle that finds names in texts: built as a user does, and called by the function; TensorFlow is the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError
from builder.base.project import Project
from builder.config import read_spec
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.support import vocabulary
from tests.support.http import Client
from tests.support.models import empty_project
from tests.support.vocabulary import PIECES, ids

pytestmark = pytest.mark.integration

LABELS = ("O", "B-FILM", "I-FILM", "B-VERDICT", "I-VERDICT")
SPEC = f"""\
[model]
source = "model.keras"
name = "names"

[[feeds]]
name = "input_ids"
shapes = [[1, 8], [1, 16]]

[text]
vocabulary = "vocab.txt"

[[outputs]]
name = "things"
kind = "tokens"
labels = {list(LABELS)}
activation = "softmax"
"""
TAGS = {"un": 1, "##known": 0, "film": 2, "very": 3, "good": 4}
"""The label of each piece; all others are O."""


def network() -> Any:
    """Scores for each token, from the token alone."""
    import keras

    scores = np.random.default_rng(3).normal(size=(len(PIECES), len(LABELS))).astype(np.float32)
    for number, piece in enumerate(PIECES):
        scores[number, TAGS.get(piece, 0)] = 4
    tokens = keras.Input((None,), dtype="int32", name="input_ids")
    table = keras.layers.Embedding(len(PIECES), len(LABELS), name="scores")
    model = keras.Model(tokens, table(tokens))
    table.set_weights([scores])
    return model


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Client]:
    folder = tmp_path_factory.mktemp("tokens")
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(folder, patch)
        model = network()
        model.save(folder / "model.keras")
        vocabulary.write(folder)
        (folder / "model.toml").write_text(SPEC, encoding="utf-8")
        bundle = build_bundle(Workspace.from_spec(read_spec(folder / "model.toml"), project)).bundle
    return model, folder, Client(Server({"names": Model(str(bundle.library))}, RequestLimits()))


def test_names_and_their_places_are_answered(built: tuple[Any, Path, Client]) -> None:
    model, _, client = built
    text = "  The UNKNOWN  film\u0301 was very, very good!"
    status, answer = client.post("/predict", {"texts": ["bad", text]})
    assert status == 200, answer
    nothing, item = answer["predictions"]
    assert nothing == {"things": []}
    found = [(one["label"], one["word"], one["start"], one["end"]) for one in item["things"]]
    assert found == [
        ("FILM", "UNKNOWN  film\u0301", 6, 20),
        ("VERDICT", "very", 25, 29),
        ("VERDICT", "very good", 31, 40),
    ]
    tokens = ids(*["t", "##h", "##e", "un", "##known", "film", "w", "##a", "##s", "very"], "[UNK]", "very", "good", "!")
    logits = model(np.array([tokens])).numpy()[0]
    chances = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).max(-1)
    wanted = [chances[tokens.index(PIECES.index(piece))] for piece in ("un", "film", "very", "good")]
    scores = [one["score"] for one in item["things"]]
    assert scores == pytest.approx([(wanted[0] + wanted[1]) / 2, wanted[2], (wanted[2] + wanted[3]) / 2], abs=1e-5)


def test_as_many_labels_as_scores_are_needed(built: tuple[Any, Path, Client]) -> None:
    _, folder, _ = built
    (folder / "few.toml").write_text(SPEC.replace('"names"', '"few"').replace("'O', ", ""), encoding="utf-8")
    with pytest.raises(ImportModelError, match=r"is float32 \[1, 8, 5\], and needs a score .*, \[1, 8, 4\]"):
        build_bundle(Workspace.from_spec(read_spec(folder / "few.toml"), Project(folder)))


WORDS = ["anna", "berlin", "lebt", "in", "meier", "dont"]
NAMES = ("O", "B-PER", "I-PER", "B-LOC")
OF_WORDS = {"anna": 1, "meier": 2, "berlin": 3}
SPEC_OF_WORDS = f"""\
[model]
source = "words.keras"
name = "words"
batch = 2

[[feeds]]
name = "text"
lengths = [4, 12]
truncate = true

[[outputs]]
name = "names"
kind = "tokens"
labels = {list(NAMES)}
activation = "softmax"
"""


@pytest.fixture(scope="module")
def of_words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Client]:
    """A model that takes strings as they are: words that its vocabulary has, and an LSTM over them."""
    import keras

    folder = tmp_path_factory.mktemp("names")
    keras.utils.set_random_seed(1)
    scores = np.zeros((len(WORDS) + 2, len(NAMES)), np.float32)
    for number, word in enumerate(WORDS, 2):
        scores[number, OF_WORDS.get(word, 0)] = 6
    scores[1, 0] = 6
    text = keras.Input((1,), dtype="string", name="text")
    ids = keras.layers.TextVectorization(vocabulary=WORDS)(text)
    own = keras.layers.Embedding(len(WORDS) + 2, len(NAMES), mask_zero=True, name="scores")
    context = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True))(own(ids))
    y = own(ids) + keras.layers.Dense(len(NAMES))(context)
    model = keras.Model(text, y)
    own.set_weights([scores])
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(folder, patch)
        model.save(folder / "words.keras")
        (folder / "model.toml").write_text(SPEC_OF_WORDS, encoding="utf-8")
        bundle = build_bundle(Workspace.from_spec(read_spec(folder / "model.toml"), project)).bundle
    return model, Client(Server({"words": Model(str(bundle.library))}, RequestLimits()))


def test_words_of_a_model_that_takes_strings(of_words: tuple[Any, Client]) -> None:
    _, client = of_words
    text = "Anna  Meier-Schulz? DON'T! Anna MEIER, lebt in \u00c4 (Berlin)."
    status, answer = client.post("/predict", {"texts": [text, "Berlin", "..."]})
    assert status == 200, answer
    first, second, third = (one["names"] for one in answer["predictions"])
    assert [(one["label"], one["word"]) for one in first] == [
        ("PER", "Anna"),
        ("PER", "Anna MEIER"),
        ("LOC", "Berlin"),
    ]
    assert all(text[one["start"] : one["end"]] == one["word"] for one in first)
    assert [(one["start"], one["end"]) for one in second] == [(0, 6)]
    assert third == []


def test_scores_of_words_are_those_of_tensorflow(of_words: tuple[Any, Client]) -> None:
    import tensorflow as tf

    model, client = of_words
    texts = ["Anna lebt", "in Berlin lebt nobody anna meier", "anna " * 30]
    _, answer = client.post("/predict", {"texts": texts})
    for text, found in zip(texts, answer["predictions"], strict=True):
        wanted = tf.nn.softmax(model(tf.constant([[" ".join(text.split()[:12])]]))[0]).numpy()
        labels = wanted.argmax(-1)
        starts = [one["start"] for one in found["names"]]
        words = [number for number, label in enumerate(labels) if label not in (0, 2)]
        offsets = [sum(len(word) + 1 for word in text.split()[:number]) for number in words]
        assert starts == offsets
        alone = [one for one in found["names"] if " " not in one["word"]]
        scores = {offset: wanted[number].max() for offset, number in zip(offsets, words, strict=True)}
        np.testing.assert_allclose([one["score"] for one in alone], [scores[one["start"]] for one in alone], atol=1e-5)
