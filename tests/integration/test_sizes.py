"""One library for several sizes of its inputs, from model.toml to the function's answers; TensorFlow is the judge."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builder.base.project import Project
from builder.cli import main
from builder.package.bundle import Bundle
from handler.errors import InferenceError
from handler.model import Model
from tests.integration.test_weights import project
from tests.support.function import served
from tests.support.models import save_keras

__all__ = ["project"]

pytestmark = pytest.mark.integration

CALLER = """
#include <stdio.h>
#include "model.h"
int main(void) {
    static unsigned char picture[64 * 128 * 3];
    static float scores[32 * 64 * 16];
    cf_model *model;
    if (cf_open(1, &model) != CF_OK) return 1;
    cf_feed feed = {picture, sizeof picture};
    cf_fetch fetch = {scores, sizeof scores};
    if (cf_run(model, &feed, 1, &fetch, 1) != CF_OK) return 2;
    feed.size = 64 * 64 * 3 + 3;
    if (cf_run(model, &feed, 1, &fetch, 1) != CF_ERR_ARGUMENT) return 3;
    puts(cf_last_error(model));
    feed.size = CF_FEED_X_SIZE;
    if (cf_run(model, &feed, 1, &fetch, 1) != CF_ERR_ARGUMENT) return 4;
    puts(cf_last_error(model));
    cf_close(model);
    return 0;
}
"""


PICTURES = """
[image]
width = 64
height = 64
scale = "1/255"
[[feeds]]
name = "x"
shapes = [[1, 64, 64, 3], [1, 96, 96, 3], [1, 64, 128, 3]]
"""


def convolutions() -> Any:
    """Fully convolutional: one score for each place of the picture."""
    import keras
    from keras import layers as kl

    x = keras.Input((None, None, 3), name="x")
    y = kl.Conv2D(32, 3, padding="same", activation="relu")(x)
    y = kl.BatchNormalization()(kl.Conv2D(64, 3, strides=2, padding="same", activation="relu")(y))
    y = kl.Conv2D(128, 3, padding="same", activation="relu")(y)
    y = kl.Conv2D(128, 3, padding="same", activation="relu")(y)
    return keras.Model(x, kl.Conv2D(16, 1, name="scores")(y))


def encoder() -> Any:
    """Tokens with a mask: what is masked, and the padding after it, changes nothing."""
    import keras
    from keras import layers as kl

    tokens = keras.Input((None,), dtype="int32", name="tokens")
    mask = keras.Input((None,), dtype="int32", name="mask")
    kept = keras.ops.cast(mask, "bool")
    keep = keras.ops.cast(kept, "float32")[:, :, None]
    y = kl.Embedding(100, 64)(tokens) * keep
    y = kl.Conv1D(64, 3, padding="same", activation="relu")(y) * keep
    y = kl.LayerNormalization()(y + kl.MultiHeadAttention(4, 16)(y, y, attention_mask=kept[:, None, :]))
    y = keras.ops.sum(y * keep, axis=1) / (keras.ops.sum(keep, axis=1) + 1)
    return keras.Model([tokens, mask], kl.Dense(5, name="scores")(y))


def bundled(project: Project, model: Any, more: str, *, head: str = "") -> Bundle:
    save_keras(model, project.root / "small.keras")
    spec = f'[model]\nsource = "small.keras"\nname = "small"\n{head}{more}'
    (project.root / "model.toml").write_text(spec)
    assert main(["bundle", "model.toml", "--in", "host"]) == 0
    return Bundle.load(project.dist / "small")


def posted(path: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "2.0",
        "requestContext": {"http": {"method": "POST", "path": path}, "requestId": "r"},
        "rawPath": path,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def weights_of(project: Project, lowered: str = "lower") -> int:
    return (project.build / "small" / lowered / "weights.bin").stat().st_size


def test_a_library_for_images_of_several_sizes(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    model = convolutions()
    bundle = bundled(project, model, PICTURES)
    manifest = json.loads(bundle.manifest.read_text())
    described = json.loads(bundle.description.read_text())
    assert described["shapes"] == manifest["shapes"]
    assert [size["feeds"][0]["shape"] for size in described["shapes"]] == [
        [1, 64, 64, 3],
        [1, 96, 96, 3],
        [1, 64, 128, 3],
    ]
    cases = manifest["verification"]["cases"]
    # Every size has met TensorFlow, photographs included.
    assert [sum(case.endswith(says) for case in cases) for says in ("96, 96, 3]", "64, 128, 3]")] == [8, 8]
    # Once, and some room for 64-byte places; apart they would be three times as much.
    assert weights_of(project) < 1.1 * 4 * model.count_params()

    opened = Model(str(bundle.library))
    random = np.random.default_rng(0)
    for height, width in ((64, 64), (96, 96), (64, 128)):
        x = random.integers(0, 256, (1, height, width, 3), np.uint8)
        found = np.frombuffer(opened.run([x.tobytes()])[0], np.float32).reshape(1, height // 2, width // 2, 16)
        np.testing.assert_allclose(found, model(x / np.float32(255)).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(InferenceError, match="x takes 12288 or 27648 or 24576 bytes, not 12291"):
        opened.run([bytes(64 * 64 * 3 + 3)])
    opened.close()

    # The header says what C needs to know.
    (project.root / "caller.c").write_text(CALLER)
    include, rpath = f"-I{bundle.folder}", f"-Wl,-rpath,{bundle.library.parent}"
    command = [sys.executable, "-m", "ziglang", "cc", include, "caller.c", bundle.library, rpath, "-o", "caller"]
    subprocess.run(command, cwd=project.root, check=True)
    done = subprocess.run(["./caller"], cwd=project.root, check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "feed x takes 12288 or 27648 or 24576 bytes, not 12291",
        "fetch scores takes 65536 bytes, not 131072",
    ]
    assert "x uint8 [1, 64, 128, 3] of 24576 bytes" in bundle.header.read_text()

    # The function takes tensors of any of the sizes, and makes pictures the first.
    x = random.integers(0, 256, (1, 96, 96, 3), np.uint8)
    png = BytesIO()
    Image.fromarray(x[0]).save(png, "PNG")
    events = [
        posted("/v1/models/small:predict", {"instances": x.tolist()}),
        posted("/predict", {"inputs": {"x": x.tolist()}}),
        posted("/predict", {"inputs": {"x": {"b64": b64encode(x.tobytes()).decode()}}}),
        posted("/predict", {"image": b64encode(png.getvalue()).decode()}),
        posted("/predict", {"inputs": {"x": x[:, :95].tolist()}}),
    ]
    *tensors, picture, wrong = served(bundle.library, *events).answers
    expected = model(x / np.float32(255)).numpy()
    bodies = [json.loads(answer["body"]) for answer in tensors]
    np.testing.assert_allclose(bodies[0]["predictions"], expected, rtol=1e-4, atol=1e-5)
    for body in bodies[1:]:
        np.testing.assert_allclose(body["predictions"][0]["scores"], expected[0], rtol=1e-4, atol=1e-5)
    assert np.shape(json.loads(picture["body"])["predictions"][0]["scores"]) == (32, 32, 16)
    assert wrong["statusCode"] == 422
    for size in ("64, 64", "96, 96", "64, 128"):
        assert f'"x" [n, {size}, 3]' in wrong["body"].replace("\\", "")


TEXTS = """
[[feeds]]
name = "tokens"
shapes = [[1, 32], [1, 64], [1, 128]]
pad = 0
[[feeds]]
name = "mask"
shapes = [[1, 32], [1, 64], [1, 128]]
pad = 0
"""


@pytest.mark.quick
def test_a_library_for_texts_of_several_lengths(project: Project) -> None:
    model = encoder()
    bundle = bundled(project, model, TEXTS, head="batch = [1, 3]\n")
    manifest = json.loads(bundle.manifest.read_text())
    assert manifest["batches"] == [1, 3]
    assert [size["feeds"][0]["shape"] for size in manifest["shapes"]] == [[1, 32], [1, 64], [1, 128]]
    cases = manifest["verification"]["cases"]
    assert {case.partition(" ")[2] for case in cases} == {
        "",
        "in a batch of 3",
        *(f"with tokens [1, {n}], mask [1, {n}]" for n in (64, 128)),
        *(f"in a batch of 3, with tokens [3, {n}], mask [3, {n}]" for n in (64, 128)),
    }
    assert weights_of(project, "lower-parts") < 1.1 * 4 * model.count_params()

    random = np.random.default_rng(0)
    opened = Model(str(bundle.library))
    for batch in (1, 3):
        for length in (32, 64, 128):
            tokens = random.integers(1, 100, (batch, length), np.int32)
            mask = np.ones_like(tokens)
            found = np.frombuffer(opened.run([_of(opened, tokens, mask, i) for i in range(2)])[0], np.float32)
            np.testing.assert_allclose(found.reshape(batch, 5), model([tokens, mask]).numpy(), rtol=1e-4, atol=1e-4)
    opened.close()

    # A shorter text is filled up, whatever the protocol, and any number of them is taken.
    tokens = random.integers(1, 100, (4, 50), np.int32)
    mask = np.ones_like(tokens)
    expected = model([tokens, mask]).numpy()
    rows = [{"tokens": t.tolist(), "mask": m.tolist()} for t, m in zip(tokens, mask, strict=True)]
    inputs = [
        {"name": name, "shape": [4, 50], "datatype": "INT32", "data": x.ravel().tolist()}
        for name, x in (("tokens", tokens), ("mask", mask))
    ]
    events = [
        posted("/v1/models/small:predict", {"instances": rows}),
        posted("/v2/models/small/infer", {"inputs": inputs}),
        posted("/predict", {"inputs": {"tokens": tokens[:1].tolist(), "mask": mask[:1].tolist()}}),
        posted("/predict", {"inputs": {"tokens": [[1] * 129], "mask": [[1] * 129]}}),
    ]
    serving, inference, own, long = served(bundle.library, *events).answers
    np.testing.assert_allclose(json.loads(serving["body"])["predictions"], expected, rtol=1e-4, atol=1e-4)
    found = np.reshape(json.loads(inference["body"])["outputs"][0]["data"], (4, 5))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(json.loads(own["body"])["predictions"][0]["scores"], expected[0], rtol=1e-4, atol=1e-4)
    assert long["statusCode"] == 422
    assert "[n, 128]" in long["body"]


def _of(opened: Model, tokens: np.ndarray, mask: np.ndarray, number: int) -> bytes:
    """The feed of that number, whose order is the model's."""
    return {"tokens": tokens, "mask": mask}[opened.description.feeds[number].name].tobytes()


def test_sizes_that_cannot_be_told_apart_are_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    save_keras(convolutions(), project.root / "small.keras")
    spec = '[model]\nsource = "small.keras"\nname = "small"\n[[feeds]]\nname = "x"\nshapes = {}\n'
    (project.root / "model.toml").write_text(spec.format([[1, 32, 64, 3], [1, 64, 32, 3]]))
    assert main(["bundle", "model.toml", "--in", "host"]) == 11
    assert "with x [1, 64, 32, 3] takes and gives the same numbers of bytes" in capsys.readouterr().err
