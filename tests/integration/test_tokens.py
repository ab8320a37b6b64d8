"""A bundle that finds names in texts: built as a user does, and called by the function; TensorFlow is the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.errors import ImportModelError
from builder.pipeline import build_bundle
from builder.project import Project
from builder.spec import load
from builder.workspace import Workspace
from handler.budget import Limits
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
        bundle = build_bundle(Workspace.of(load(folder / "model.toml"), project)).bundle
    return model, folder, Client(Server({"names": Model(str(bundle.library))}, Limits()))


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
        build_bundle(Workspace.of(load(folder / "few.toml"), Project(folder)))
