"""A model that begins with strings in several inputs, beside numbers: from the SavedModel to the function's answers."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.cli import main
from builder.config import read_spec
from builder.measure.local.run_event import format_try_command, make_zero_inputs
from builder.package import openapi
from builder.package.bundle import Bundle
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from handler.budget import RequestLimits
from handler.errors import HandlerError, Refusal, make_refusal
from handler.http import HttpRequest
from handler.model import Model
from handler.protocols import open_inference, predict, tf_serving
from handler.server import Invocation, Server
from tests.support.models import empty_project
from tests.support.results import printed

pytestmark = pytest.mark.integration

SPEC = """\
[model]
source = "saved"
name = "listing"
batch = [1, 4]

[[feeds]]
name = "review"
lengths = [4, 12]

[[outputs]]
name = "price"
"""

COLOURS = ["red", "green", "blue"]
REVIEWS = ["Red wine, good!", "a GREEN one", "日本 ÄÖ", "nothing of it known", "good good red one wine a b c d e"]


def network() -> Any:
    """Text of any length to ids and an embedding, a column of words to one of several, three tags at once, and two
    numbers.
    """
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    review = keras.Input((1,), dtype="string", name="review")
    colour = keras.Input((1,), dtype="string", name="colour")
    tags = keras.Input((3,), dtype="string", name="tags")
    size = keras.Input((2,), name="size")
    words = layers.TextVectorization(vocabulary=["red", "good", "wine", "one"])(review)
    parts = [
        layers.GlobalAveragePooling1D()(layers.Embedding(6, 5, mask_zero=True)(words)),
        layers.StringLookup(vocabulary=COLOURS, output_mode="one_hot", num_oov_indices=2)(colour),
        layers.Hashing(8, output_mode="multi_hot")(tags),
        size,
    ]
    joined = layers.Concatenate()([keras.ops.cast(part, "float32") for part in parts])
    return keras.Model([review, colour, tags, size], layers.Dense(3, activation="tanh", name="price")(joined))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Bundle]:
    folder = tmp_path_factory.mktemp("words")
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project(folder, patch)
        model = network()
        model.export(folder / "saved", verbose=False)
        (folder / "model.toml").write_text(SPEC, encoding="utf-8")
        return model, build_bundle(Workspace.from_spec(read_spec(folder / "model.toml"), project)).bundle


@pytest.fixture(scope="module")
def server(built: tuple[Any, Bundle]) -> Server:
    model = Model(str(built[1].library))
    return Server({model.description.name: model}, RequestLimits())


def call() -> Invocation:
    def refuse(error: Exception) -> Refusal:
        return make_refusal(error, "request-1")

    return Invocation("request-1", False, lambda: 60_000, lambda result: None, refuse)


def post(path: str, body: bytes, headers: dict[str, str] | None = None) -> HttpRequest:
    return HttpRequest("POST", path, {}, {"content-type": "application/json", **(headers or {})}, body)


def columns(count: int) -> dict[str, Any]:
    return {
        "review": [REVIEWS[at % len(REVIEWS)] for at in range(count)],
        "colour": [[*COLOURS, "violett", "日本"][at % 5] for at in range(count)],
        "tags": [["new", f"tag {at}", "ÄÖ"] for at in range(count)],
        "size": [[at / 2, -1.5] for at in range(count)],
    }


def wanted(model: Any, given: dict[str, Any]) -> Any:
    import tensorflow as tf

    count = len(given["size"])
    return model(
        {
            "review": tf.constant(given["review"], shape=(count, 1)),
            "colour": tf.constant(given["colour"], shape=(count, 1)),
            "tags": tf.constant(given["tags"]),
            "size": tf.constant(given["size"], tf.float32),
        }
    ).numpy()


@pytest.mark.parametrize("count", [1, 3, 11])
def test_every_protocol_answers_as_tensorflow(built: tuple[Any, Bundle], server: Server, count: int) -> None:
    given = columns(count)
    expected = wanted(built[0], given)
    found = predict.answer_event({"inputs": given}, server, call())["predictions"]
    np.testing.assert_allclose([one["price"] for one in found], expected, atol=1e-5)

    rows = [{name: values[at] for name, values in given.items()} for at in range(count)]
    for body, key in (({"instances": rows}, "predictions"), ({"inputs": given}, "outputs")):
        answer = tf_serving.handle_request(
            post("/v1/models/listing:predict", json.dumps(body).encode()), server, call()
        )
        np.testing.assert_allclose(json.loads(answer.body)[key], expected, atol=1e-5)

    shapes = {"review": [count, 1], "colour": [count], "tags": [count, 3], "size": [count, 2]}
    kinds = {name: "FP32" if name == "size" else "BYTES" for name in given}
    inputs = [
        {"name": n, "shape": shapes[n], "datatype": kinds[n], "data": np.ravel(v).tolist()} for n, v in given.items()
    ]
    answer = open_inference.handle_request(
        post("/v2/models/listing/infer", json.dumps({"inputs": inputs}).encode()), server, call()
    )
    np.testing.assert_allclose(
        np.reshape(json.loads(answer.body)["outputs"][0]["data"], (count, 3)), expected, atol=1e-5
    )


def test_strings_in_binary_form(built: tuple[Any, Bundle], server: Server) -> None:
    given = columns(2)
    blobs = {
        name: np.array(values, np.float32).tobytes()
        if name == "size"
        else b"".join(struct.pack("<I", len(one.encode())) + one.encode() for one in np.ravel(values).tolist())
        for name, values in given.items()
    }
    shapes = {"review": [2, 1], "colour": [2, 1], "tags": [2, 3], "size": [2, 2]}
    inputs = [
        {
            "name": name,
            "shape": shapes[name],
            "datatype": "FP32" if name == "size" else "BYTES",
            "parameters": {"binary_data_size": len(blob)},
        }
        for name, blob in blobs.items()
    ]
    head = json.dumps({"inputs": inputs}).encode()
    request = post("/v2/models/listing/infer", head + b"".join(blobs.values()), {open_inference.LENGTH: str(len(head))})
    answer = json.loads(open_inference.handle_request(request, server, call()).body)
    np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], (2, 3)), wanted(built[0], given), atol=1e-5)


def sizes_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each run from now on."""
    sizes: list[int] = []
    run = Model.run

    def noted(model: Model, feeds: Any, size: int, *further: Any) -> list[memoryview]:
        sizes.append(size)
        return run(model, feeds, size, *further)

    monkeypatch.setattr(Model, "run", noted)
    return sizes


@pytest.mark.parametrize(("review", "size"), [("", 0), ("good red wine one", 0), ("a b c d e", 1), ("a " * 12, 1)])
def test_the_smallest_size_that_holds_the_texts(
    built: tuple[Any, Bundle], server: Server, monkeypatch: pytest.MonkeyPatch, review: str, size: int
) -> None:
    given = columns(2) | {"review": ["red", review]}
    sizes = sizes_of_runs(monkeypatch)
    expected = wanted(built[0], given)
    found = predict.answer_event({"inputs": given}, server, call())["predictions"]
    answers = [[math.nan if one is None else one for one in row["price"]] for row in found]
    np.testing.assert_allclose(answers, expected, atol=1e-5)
    assert sizes == [0, size]  # batches of 1 and 4 make two runs of two texts


def test_each_run_has_the_smallest_size_for_its_texts(
    built: tuple[Any, Bundle], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers and other strings beside the texts go with them, and the answers come in the order of the request."""
    given = columns(11) | {"review": ["red wine", "a b c d e f g"] * 5 + ["good"]}
    sizes = sizes_of_runs(monkeypatch)
    found = predict.answer_event({"inputs": given}, server, call())["predictions"]
    np.testing.assert_allclose([one["price"] for one in found], wanted(built[0], given), atol=1e-5)
    assert sizes == [0, 1, 1]  # of 4, 4 and 3 items, of which 6 are short


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no list": ({"colour": 5}, "wrong_type"),
    "no string": ({"colour": [5]}, "wrong_shape"),
    "nothing": ({"colour": []}, "wrong_type"),
    "too few of an item": ({"tags": [["a", "b"]]}, "wrong_shape"),
    "other numbers of items": ({"colour": ["red", "red"]}, "wrong_shape"),
    "half of a surrogate pair": ({"review": ["\ud800"]}, "not_text"),
    "too many words": ({"review": ["a " * 13]}, "text_too_long"),
    "too long": ({"review": ["a " * 150_000]}, "text_too_long"),
    "far too long": ({"review": ["a" * 2_000_000]}, "too_large"),
    "too many": ({"colour": ["red"] * 5000}, "too_many_images"),
    "another name": ({"color": ["red"]}, "wrong_field"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused_has_a_code_and_the_next_request_works(server: Server, case: str) -> None:
    changed, code = BAD[case]
    with pytest.raises(HandlerError) as refused:
        predict.answer_event({"inputs": columns(1) | changed}, server, call())
    assert refused.value.code == code
    assert predict.answer_event({"inputs": columns(1)}, server, call())["predictions"]


def test_what_it_says_of_itself(built: tuple[Any, Bundle], server: Server) -> None:
    description = server.find_description(None)
    about = {port["name"]: port for port in open_inference.describe_model(description)["inputs"]}
    assert about["tags"] == {"name": "tags", "datatype": "BYTES", "shape": [-1, 3]}
    inputs = tf_serving.describe_model(description)["metadata"]["signature_def"]["signature_def"]["serving_default"][
        "inputs"
    ]
    assert inputs["colour"]["dtype"] == "DT_STRING"
    schema = json.dumps(openapi.make_document([description], RequestLimits()))
    assert '"colour": {"anyOf"' in schema
    described = json.loads((built[1].folder / "model.json").read_text())
    assert '"colour": <strings [1, 1]>' in format_try_command(["."], described)
    assert predict.answer_event(make_zero_inputs(described), server, call())["predictions"]


def test_inspect_names_what_is_done_with_the_strings(
    built: tuple[Any, Bundle], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(built[1].folder).parents[1])
    assert main(["inspect", "model.toml", "--json"]) == 0
    given, *steps, made = printed("inspect", capsys.readouterr().out)["strings"]
    assert given == "review, colour, tags"
    assert {"StringLower", "StringSplitV2", "LookupTableFindV2 of 4", "StringToHashBucketFast"} <= set(steps)
    assert not {"Shape", "Reshape", "StridedSlice"} & set(steps)
    assert "review int64 [1, 4]" in made
    assert main(["inspect", "model.toml"]) == 0
    assert f"\nstrings: review, colour, tags → {steps[0]} → " in capsys.readouterr().out


def test_the_words_are_in_the_bundle_and_golden(built: tuple[Any, Bundle]) -> None:
    bundle = built[1]
    for paper in (bundle.manifest, bundle.sbom, bundle.statement):
        assert "lib/model.words" in paper.read_text(encoding="utf-8"), paper.name
    folder = Path(bundle.folder).parents[1] / "build" / "listing" / "import"
    with np.load(folder / "golden.npz") as golden:
        cases = {key.split("/")[1] for key in golden.files if key.startswith("feed/")}
    assert sum(case.startswith("example-") for case in cases) == 6
