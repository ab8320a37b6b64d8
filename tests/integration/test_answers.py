"""A bundle whose outputs are of the kinds in docs/answers.md: built as a user does, and called by the function."""

from __future__ import annotations

import base64
import io
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from builder.base.errors import ImportModelError, VerifyError
from builder.base.targets import X86_64
from builder.base.tf import import_tensorflow
from builder.cli import main
from builder.config import Tolerance, read_spec
from builder.config.tensor import TensorSpec
from builder.importers.graph import FrozenGraph
from builder.importers.spec_steps import Ending, compute_class_map
from builder.release.selftest.programs import build_programs, run_program
from builder.verify.agreement import compare_output
from builder.verify.golden import GoldenCase, GoldenFile
from builder.verify.target_runner import HERE
from handler.budget import RequestLimits
from handler.model import Model
from handler.server import Server
from tests.conftest import ROOT
from tests.support import pages
from tests.support.build import CACHE
from tests.support.http import Client, served
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

[[fetches]]
name = "places"

[[fetches]]
name = "logits"

[[fetches]]
name = "kinds"

[[fetches]]
name = "colours"

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

[[outputs]]
name = "objects"
boxes = "places"
scores = "logits"
classes = "kinds"
box_format = "yxyx"
labels = ["red", "green", "blue"]
activation = "sigmoid"
threshold = 0.6

[[outputs]]
name = "parts"
fetch = "colours"
kind = "segmentation"
labels = ["red", "green", "blue"]
"""
MATRIX = np.random.default_rng(1).normal(size=(3, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a picture ``x`` [1, 32, 32, 3]: a vector of its mean colour; for each colour the box of what has much of it
    and little of the others, and by how many tens of pixels that is more than 20.
    """
    root, tf = tmp_path_factory.mktemp("scene"), import_tensorflow()
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [1, SIDE, SIDE, 3], name="x")
        tf.identity(tf.reduce_mean(x, [1, 2]) @ tf.constant(MATRIX), name="vector")
        others = tf.reduce_sum(x, -1, keepdims=True) - x
        there = tf.logical_and(x > 0.7, others < 0.8)[0]  # [32, 32, 3]
        edges = []
        for axis in (1, 0):
            lines = tf.cast(tf.reduce_any(there, axis), tf.float32)
            edges += [tf.argmax(lines, 0), SIDE - tf.argmax(lines[::-1], 0)]
        yxyx = tf.cast(tf.stack([edges[0], edges[2], edges[1], edges[3]], 1), tf.float32) / SIDE
        tf.identity(yxyx[None], name="places")
        pixels = tf.reduce_sum(tf.cast(there, tf.float32), [0, 1])
        tf.identity((pixels / 10 - 2)[None], name="logits")
        tf.constant([[0, 1, 2]], name="kinds")
        tf.identity(x, name="colours")
        (root / "scene.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (root / "model.toml").write_text(SPEC.replace("FIT", "contain"))
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(root, patch)
        assert main(["bundle", "model.toml", "--in", "host"]) == 0
    return project.root


@pytest.fixture(scope="module")
def client(bundle: Path) -> Client:
    library = bundle / "dist" / "scene" / "layer" / "lib" / "libmodel.so"
    return Client(Server({"scene": Model(str(library))}, RequestLimits()))


def png(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def answered(client: Client, picture: Image.Image, **options: Any) -> dict[str, Any]:
    status, answer = client.post("/predict", {"image": png(picture), **options})
    assert status == 200, answer
    (prediction,) = answer["predictions"]
    return dict(prediction)


def test_objects_are_where_the_image_has_them(client: Client) -> None:
    """A wide picture, of which the model sees a band with padding above and below."""
    picture = Image.new("RGB", (640, 320), "white")
    ImageDraw.Draw(picture).rectangle((60, 40, 199, 179), fill=(255, 0, 0))
    ImageDraw.Draw(picture).rectangle((400, 200, 639, 319), fill=(0, 0, 255))
    found = answered(client, picture)["objects"]
    assert [one["label"] for one in found] == ["blue", "red"]
    for one, wanted in zip(found, [(400, 200, 640, 320), (60, 40, 200, 180)], strict=True):
        assert one["score"] > 0.9
        np.testing.assert_allclose(one["box"], wanted, atol=640 / SIDE)
    assert len(answered(client, picture, threshold=0.99)["objects"]) == 1
    assert answered(client, Image.new("RGB", (640, 320), "white"))["objects"] == []


def test_a_segmentation_has_the_images_size(client: Client) -> None:
    picture = Image.new("RGB", (640, 320), (255, 0, 0))
    ImageDraw.Draw(picture).rectangle((320, 0, 639, 319), fill=(0, 0, 255))
    found = answered(client, picture)["parts"]
    assert (found["width"], found["height"]) == (640, 320)
    assert {one["label"]: round(one["share"], 2) for one in found["classes"]} == {"red": 0.5, "blue": 0.5}
    pixels = np.array(Image.open(io.BytesIO(base64.b64decode(found["png"]))))
    assert (pixels[:, :300] == 0).all()
    assert (pixels[:, 340:] == 2).all()
    tensor = client.post("/v1/models/scene:predict", {"instances": [{"b64": png(picture)}]})[1]["predictions"][0]
    assert np.shape(tensor["colours"]) == (SIDE, SIDE)


def test_an_embedding_is_cut_and_of_length_1(client: Client) -> None:
    colour = (200, 100, 50)
    picture = Image.new("RGB", (SIDE, SIDE), colour)
    whole = np.array(colour) / 255 @ MATRIX.astype(np.float64)
    for count in (DIMENSIONS, 5):
        wanted = whole[:count] / np.linalg.norm(whole[:count])
        found = answered(client, picture, **({"dimensions": count} if count < DIMENSIONS else {}))
        np.testing.assert_allclose(found["vector"], wanted, atol=1e-6)
    tensors = client.post("/v1/models/scene:predict", {"instances": [{"b64": png(picture)}]})[1]["predictions"]
    np.testing.assert_allclose(tensors[0]["vector"], whole[:DIMENSIONS] / np.linalg.norm(whole[:DIMENSIONS]), atol=1e-6)


@pytest.mark.parametrize("command", pages.served_commands("docs/answers.md"))
def test_curl_as_documented(client: Client, command: str) -> None:
    with served(client) as url:
        (answer,) = pages.ask(command, url)["predictions"]
    assert set(answer) == {"vector", "objects", "parts"}
    if "format=int8" in command:
        assert max(map(abs, answer["vector"])) == 127
        assert len(answer["vector"]) == 6
    if "format=rle" in command:
        parts = answer["parts"]
        assert all(sum(one["rle"]["counts"]) == parts["width"] * parts["height"] for one in parts["classes"])


def test_the_python_of_the_page(client: Client) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "answers.md").read_text(encoding="utf-8"), re.DOTALL)
    picture = {"image": png(Image.new("RGB", (SIDE, SIDE), (200, 100, 50)))}
    ran: dict[str, Any] = {"answer": client.post("/predict", picture, format="base64")[1]}
    exec(code, ran)
    assert list(ran["vector"]) == pytest.approx(client.post("/predict", picture)[1]["predictions"][0]["vector"])


SCORES = np.random.default_rng(2).normal(size=(2, 4, 5, 3)).astype(np.float32)
SIDES = (8, 10)
"""Of images whose classes are told for every fourth pixel."""


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        (SCORES, Ending(segmentation=True), SCORES.argmax(-1)),
        (SCORES, Ending("softmax", segmentation=True, labels=3), SCORES.argmax(-1)),
        (np.moveaxis(SCORES, -1, 1), Ending(segmentation=True, labels=3), SCORES.argmax(-1)),
        (np.moveaxis(SCORES, -1, 1), Ending(segmentation=True, image_size=SIDES), SCORES.argmax(-1)),
        (np.moveaxis(SCORES, -1, 1)[:, :1], Ending(segmentation=True, image_size=SIDES), SCORES[..., 0] > 0.5),
        (SCORES, Ending(segmentation=True, image_size=SIDES), SCORES.argmax(-1)),
        (SCORES[..., :1], Ending("sigmoid", segmentation=True, labels=2), SCORES[..., 0] > 0),
        (SCORES[..., :1], Ending(segmentation=True), SCORES[..., 0] > 0.5),
        (np.int64([[[-1, 7, 300]]]), Ending(segmentation=True), [[[0, 7, 254]]]),
    ],
)
def test_the_best_class_of_each_pixel(value: Any, wanted: Ending, expected: Any) -> None:
    found = compute_class_map(import_tensorflow().constant(value), wanted, "y").numpy()
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("value", "labels", "says"),
    [
        (SCORES, 6, "it has 6 labels, and needs 3"),
        (SCORES[..., :1], 1, "it has 1 labels, and needs 2"),
        (np.zeros((1, 2, 2, 256), np.float32), 0, "at most 255 are possible"),
        (SCORES[0], 0, "needs scores"),
        (SCORES.astype(np.int32), 0, "needs scores"),
        (SCORES[0, 0], 0, "needs scores"),
    ],
)
def test_what_is_no_class_map(value: Any, labels: int, says: str) -> None:
    with pytest.raises(ImportModelError, match=says):
        compute_class_map(import_tensorflow().constant(value), Ending(segmentation=True, labels=labels), "y")


def test_the_selftest_allows_as_many_pixels_as_the_build(bundle: Path, tmp_path: Path) -> None:
    """Of 1,024 pixels one may have another class than TensorFlow's, and of any other output no element."""
    spec, library = read_spec(bundle / "model.toml"), bundle / "dist" / "scene" / "layer" / "lib" / "libmodel.so"
    graph = FrozenGraph.load(bundle / "build" / "scene" / "import")
    (tmp_path / "ports.json").write_bytes(graph.ports_path.read_bytes())
    with GoldenFile.open(graph.golden_path) as golden:
        feeds, fetches = ([port.spec.name for port in ports] for ports in (graph.feeds, graph.fetches))
        case = golden.cases[-1]
        case_feeds = {name: golden.read_feed(case, name) for name in feeds}
        answers = {name: golden.read_fetch(case, name).copy() for name in fetches}
    for off, says in ((1, "in 1 of at most 1 elements of a case, agrees"), (2, "2 of 1024 elements disagree")):
        answers["colours"].flat[off] += 7
        GoldenFile.write(tmp_path / "golden.npz", {case: GoldenCase(case_feeds, answers)})
        build_programs(spec, FrozenGraph.load(tmp_path), X86_64, CACHE, tmp_path)
        with nullcontext() if off == 1 else pytest.raises(VerifyError, match=says):
            assert says in run_program(tmp_path / "test", HERE, str(library))


@pytest.mark.parametrize(("pixels", "passes"), [(0, True), (1, True), (2, False)])
def test_a_pixel_of_a_thousand_may_have_another_class(pixels: int, passes: bool) -> None:
    """Where two classes are as good, the last bit of a sum decides."""
    theirs = np.zeros((1, 25, 40), np.uint8)
    ours = theirs.copy()
    ours[0, 3, :pixels] = 7
    fetch = TensorSpec("y", "uint8", theirs.shape)
    assert compare_output("y", fetch, "segmentation", Tolerance(), [("case", ours, theirs)]).passed is passes
    assert compare_output("y", fetch, "raw", Tolerance(), [("case", ours, theirs)]).passed is (pixels == 0)
