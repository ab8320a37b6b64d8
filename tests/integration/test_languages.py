"""The example that tells languages: its accuracy on what it never saw, through the function's own code."""

from __future__ import annotations

import json

import pytest

from builder.base.tf import import_tensorflow
from builder.package.bundle import Bundle
from handler.budget import RequestLimits
from handler.errors import Refusal, make_refusal
from handler.model import Model
from handler.protocols import predict
from handler.server import Invocation, Server
from tests.conftest import ROOT, make_bundle

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def languages() -> Bundle:
    return make_bundle("languages")


def test_languages_are_told_as_well_as_tensorflow_tells_them(languages: Bundle) -> None:
    """At least 96 % of passages that training never saw, and never another answer than TensorFlow's."""

    def refuse(error: Exception) -> Refusal:
        return make_refusal(error, "request-1")

    held_out = json.loads((ROOT / "build" / "languages" / "held_out.json").read_text(encoding="utf-8"))
    model = Model(str(languages.library))
    server = Server({"languages": model}, RequestLimits())
    call = Invocation("request-1", False, lambda: 60_000, lambda result: None, refuse)
    found = predict.answer_event({"texts": held_out["texts"]}, server, call, limit=None)["predictions"]
    labels = model.description.outputs[0].labels
    ours = [labels.index(one["language"][0]["label"]) for one in found]
    tf = import_tensorflow()
    keras = tf.keras.models.load_model(ROOT / "build" / "languages" / "model.keras")
    theirs = keras(tf.constant(held_out["texts"])).numpy().argmax(axis=1).tolist()
    assert len(ours) >= 1000
    assert ours == theirs
    assert sum(map(int.__eq__, ours, held_out["labels"])) >= 0.96 * len(ours)
