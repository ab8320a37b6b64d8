"""Models that take text, from the trained model to the function's answers; TensorFlow is the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builder.pack.bundle import Bundle
from builder.pipeline import build_bundle
from builder.spec import load
from builder.text import encoder
from builder.workspace import Workspace
from handler.budget import Limits
from handler.errors import Refusal, refusal
from handler.model import Model
from handler.protocols import predict
from handler.server import Call, Server
from tests.support import vocabulary
from tests.support.models import empty_project, save_keras
from tests.support.vocabulary import PIECES

pytestmark = pytest.mark.integration

SPEC = """\
[model]
source = "model.keras"
name = "sentences"
batch = [1, 4]

[[feeds]]
name = "input_ids"
shapes = [[1, 8], [1, 16]]

[[feeds]]
name = "attention_mask"
shapes = [[1, 8], [1, 16]]

[text]
vocabulary = "vocab.txt"

[[outputs]]
name = "vector"
"""

TEXTS = (
    "Good film!", "not bad", "天 天", "", "played, playing; unknown plays 1 2 3", "very " * 30, "é", "Не знаю",
)  # fmt: skip


def network() -> Any:
    """A Keras encoder of tokens: the mean of a layer over those that the mask has, of length 1."""
    import keras

    keras.utils.set_random_seed(5)
    ids = keras.Input((None,), dtype="int32", name="input_ids")
    mask = keras.Input((None,), dtype="int32", name="attention_mask")
    x = keras.layers.Embedding(len(PIECES), 12)(ids)
    x = keras.layers.Dense(8, activation="gelu")(x)
    weight = keras.ops.cast(keras.ops.expand_dims(mask, -1), "float32")
    y = keras.ops.sum(x * weight, axis=1) / keras.ops.maximum(keras.ops.sum(weight, axis=1), 1e-9)
    return keras.Model([ids, mask], keras.layers.UnitNormalization(name="vector")(y))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Bundle]:
    folder = tmp_path_factory.mktemp("text")
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(folder, patch)
        model = network()
        save_keras(model, folder / "model.keras")
        vocabulary.write(folder)
        (folder / "model.toml").write_text(SPEC, encoding="utf-8")
        return model, build_bundle(Workspace.of(load(folder / "model.toml"), project)).bundle


def server_of(bundle: Bundle) -> Server:
    model = Model(str(bundle.library))
    return Server({model.description.name: model}, Limits())


def call() -> Call:
    def refuse(error: Exception) -> Refusal:
        return refusal(error, "request-1")

    return Call("request-1", False, lambda: 60_000, lambda result: None, refuse)


def test_the_function_answers_as_tensorflow(built: tuple[Any, Bundle]) -> None:
    model, bundle = built
    texts = [text for text in TEXTS if text]
    found = predict.answer({"texts": texts}, server_of(bundle), call())["predictions"]
    spec = load(bundle.folder.parents[1] / "model.toml")
    assert spec.text
    encode = encoder(spec.text, 16).encoder
    for text, item in zip(texts, found, strict=True):
        ids, whole = encode.encode(text, 16)
        assert whole == (text != "very " * 30)
        assert len(ids) <= 16
        wanted = model([np.array([ids]), np.ones((1, len(ids)), np.int32)]).numpy()[0]
        assert np.abs(np.array(item["vector"]) - wanted).max() < 1e-5, text


def test_the_golden_inputs_are_tokens(built: tuple[Any, Bundle]) -> None:
    _, bundle = built
    with np.load(bundle.folder.parents[1] / "build" / "sentences" / "import" / "golden.npz") as golden:
        cases = {key.split("/")[1] for key in golden.files if key.startswith("feed/")}
        ids = np.stack([golden[f"feed/{case}/input_ids"] for case in sorted(cases)])
        masks = np.stack([golden[f"feed/{case}/attention_mask"] for case in sorted(cases)])
    assert all(case.startswith("text-") for case in cases)
    assert (ids[:, 0, 0] == PIECES.index("[CLS]")).all()
    assert {4, 8} <= set(masks.sum(axis=-1).ravel())
    assert not ids[masks == 0].any()


def test_the_vocabulary_is_in_the_bundle(built: tuple[Any, Bundle]) -> None:
    _, bundle = built
    assert bundle.text.is_file()
    for paper in (bundle.manifest, bundle.sbom, bundle.statement):
        assert "lib/model.text" in paper.read_text(encoding="utf-8"), paper.name
    assert "vocab.txt" in bundle.statement.read_text(encoding="utf-8")
