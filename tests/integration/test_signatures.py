"""A SavedModel of two signatures in one library, from model.toml to the function; TensorFlow is the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.project import Project
from builder.cli import main
from builder.package.bundle import Bundle
from handler.model import Model
from tests.integration.test_sizes import posted, weights_of
from tests.integration.test_weights import project
from tests.support.function import served

__all__ = ["project"]

pytestmark = pytest.mark.integration

WIDE, NARROW, BOTTLENECK = 96, 256, 32


def autoencoder(folder: Path) -> Any:
    """``encode`` and ``decode``, and ``score``, which is both and so has all of their weights."""
    import tensorflow as tf

    random = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return tf.Variable(random.normal(0, shape[0] ** -0.5, shape).astype(np.float32))

    class Coder(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = weights(WIDE, NARROW), weights(NARROW, BOTTLENECK)
            self.third, self.fourth = weights(BOTTLENECK, NARROW), weights(NARROW, WIDE)
            self.bias = weights(NARROW)

        @tf.function(input_signature=[tf.TensorSpec((None, WIDE), tf.float32, "x")])
        def encode(self, x: Any) -> Any:
            return {"code": tf.nn.relu(x @ self.first + self.bias) @ self.second}

        @tf.function(
            input_signature=[
                tf.TensorSpec((None, BOTTLENECK), tf.float32, "code"),
                tf.TensorSpec((None, 1), tf.float32, "gain"),
            ]
        )
        def decode(self, code: Any, gain: Any) -> Any:
            return {"x": tf.nn.relu(code @ self.third + self.bias) @ self.fourth * gain}

        @tf.function(input_signature=[tf.TensorSpec((None, WIDE), tf.float32, "x")])
        def score(self, x: Any) -> Any:
            again = self.decode(self.encode(x)["code"], tf.ones((tf.shape(x)[0], 1)))["x"]
            return {"loss": tf.reduce_mean((again - x) ** 2, axis=1), "x": again}

    model = Coder()
    names = ("encode", "decode", "score")
    tf.saved_model.save(model, str(folder), signatures={name: getattr(model, name) for name in names})
    return model


SPEC = """
[model]
source = "coder"
name = "small"
batch = [1, 4]
signature = ["encode", "decode", "score"]

[[outputs]]
signature = "decode"
name = "decoded"
fetch = "x"

[tolerance]
absolute = 1e-4
"""


@pytest.mark.parametrize("place", [pytest.param("library", marks=pytest.mark.quick), "layer"])
def test_a_library_of_several_signatures(project: Project, place: str) -> None:
    model = autoencoder(project.root / "coder")
    (project.root / "model.toml").write_text(f'{SPEC}[weights]\nplace = "{place}"\n')
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    bundle = Bundle.load(project.dist / "small")
    manifest = json.loads(bundle.manifest.read_text())
    assert [one["signature"] for one in manifest["signatures"]] == ["decode", "score"]
    cases = {case.partition(" ")[2] for case in manifest["verification"]["cases"]}
    four = "in a batch of 4"
    assert cases == {"", four, "of decode", f"of decode, {four}", "of score", f"of score, {four}"}
    # Everything is there once, though `score` has all that `encode` and `decode` have.
    parameters = sum(int(np.prod(v.shape)) for v in model.variables)
    weights = bundle.weights.stat().st_size if place == "layer" else weights_of(project)
    assert weights < 1.3 * 4 * parameters

    random = np.random.default_rng(1)
    x = random.standard_normal((7, WIDE)).astype(np.float32)
    code, gain = model.encode(x)["code"].numpy(), random.standard_normal((7, 1)).astype(np.float32)
    decoded = model.decode(code, gain)["x"].numpy()
    given = {"x": x, "code": code, "gain": gain}
    expected = {"encode": {"code": code}, "decode": {"x": decoded}, "score": {}}
    expected["score"] = {name: value.numpy() for name, value in model.score(x).items()}
    opened = Model(str(bundle.library))
    for batch in (1, 4):
        for one in (opened.description, *opened.description.others):
            feeds = [given[port.name][:batch].tobytes() for port in one.feeds]
            for port, found in zip(one.fetches, opened.run(feeds, signature=one.signature), strict=True):
                wanted = expected[one.signature][port.name][:batch]
                np.testing.assert_allclose(np.reshape(found, wanted.shape), wanted, rtol=1e-4, atol=1e-4)
    opened.close()

    rows = [{"code": c.tolist(), "gain": g.tolist()} for c, g in zip(code, gain, strict=True)]
    tensors = [
        {"name": name, "shape": list(given[name].shape), "datatype": "FP32", "data": given[name].ravel().tolist()}
        for name in ("code", "gain")
    ]
    first = {name: given[name][:1].tolist() for name in ("code", "gain")}
    predict, infer = "/v1/models/small:predict", "/v2/models/small/infer"
    answers = served(
        bundle.library,
        posted(predict, {"instances": x.tolist()}),
        posted(predict, {"signature_name": "decode", "instances": rows}),
        posted(infer, {"parameters": {"signature": "decode"}, "inputs": tensors}),
        posted("/predict", {"signature": "decode", "inputs": first}),
        posted(predict, {"signature_name": "embed", "instances": rows}),
    ).answers
    bodies = [json.loads(answer["body"]) for answer in answers]
    found = [
        bodies[0]["predictions"],
        bodies[1]["predictions"],
        np.reshape(bodies[2]["outputs"][0]["data"], decoded.shape),
        bodies[3]["predictions"][0]["decoded"],
    ]
    for ours, theirs in zip(found, (code, decoded, decoded, decoded[0]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert answers[4]["statusCode"] == 400
    assert '"encode", "decode", "score"' in bodies[4]["error"]


def test_a_signature_that_is_not_there_is_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    autoencoder(project.root / "coder")
    (project.root / "model.toml").write_text(SPEC.replace('"score"', '"embed"'))
    assert main(["bundle", "model.toml", "--in", "host"]) == 11
    assert "has no signature 'embed'. It has decode, encode, score" in capsys.readouterr().err
