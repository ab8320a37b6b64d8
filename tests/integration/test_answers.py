"""A bundle whose outputs are of the kinds in docs/answers.md: built as a user does, and called by the function."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builder.cli import main
from builder.importers.tf import tensorflow
from handler.budget import Limits
from handler.model import Model
from handler.server import Server
from tests.support.http import Client
from tests.support.models import empty_project

pytestmark = pytest.mark.integration

SIDE, WIDTH, DIMENSIONS = 32, 12, 8
SPEC = f"""\
[model]
source = "scene.pb"
name = "scene"
version = "1"

[[feeds]]
name = "x"

[[fetches]]
name = "vector"

[image]
width = {SIDE}
height = {SIDE}
scale = "1/255"
fit = "FIT"

[[outputs]]
name = "vector"
fetch = "vector"
kind = "embedding"
dimensions = {DIMENSIONS}
normalise = true
"""
MATRIX = np.random.default_rng(1).normal(size=(3, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a picture ``x`` [1, 32, 32, 3]: a vector of its mean colour."""
    root, tf = tmp_path_factory.mktemp("scene"), tensorflow()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [1, SIDE, SIDE, 3], name="x")
        tf.identity(tf.reduce_mean(x, [1, 2]) @ tf.constant(MATRIX), name="vector")
        (root / "scene.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (root / "model.toml").write_text(SPEC.replace("FIT", "contain"))
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(root, patch)
        assert main(["bundle", "model.toml", "--in", "host"]) == 0
    return project.root


@pytest.fixture(scope="module")
def client(bundle: Path) -> Client:
    library = bundle / "dist" / "scene" / "layer" / "lib" / "libmodel.so"
    return Client(Server({"scene": Model(str(library))}, Limits()))


def png(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def answered(client: Client, picture: Image.Image, **options: Any) -> dict[str, Any]:
    status, answer = client.post("/predict", {"image": png(picture), **options})
    assert status == 200, answer
    (prediction,) = answer["predictions"]
    return dict(prediction)


def test_an_embedding_is_cut_and_of_length_1(client: Client) -> None:
    colour = (200, 100, 50)
    picture = Image.new("RGB", (SIDE, SIDE), colour)
    whole = np.array(colour) / 255 @ MATRIX.astype(np.float64)
    for count in (DIMENSIONS, 5):
        wanted = whole[:count] / np.linalg.norm(whole[:count])
        found = answered(client, picture, **({"dimensions": count} if count < DIMENSIONS else {}))
        np.testing.assert_allclose(found["vector"], wanted, atol=1e-6)
    tensors = client.post("/v1/models/scene:predict", {"instances": [{"b64": png(picture)}]})[1]["predictions"]
    np.testing.assert_allclose(tensors, [whole[:DIMENSIONS] / np.linalg.norm(whole[:DIMENSIONS])], atol=1e-6)
