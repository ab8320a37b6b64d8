"""Folders of transformers: from ``coldforge new`` to a function that answers as the published pipelines do."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.published_folders import (
    ask_service,
    build_service,
    check_refusal,
    draft_model,
    write_folders,
)

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``transformers_cases`` leaves."""
    return write_folders("transformers", "transformers_cases.py", 20, tmp_path_factory.mktemp("transformers"))


def build(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, feeds: int = 2) -> Path:
    """Return the library of a new project for ``model``, for one batch only."""

    def edit(toml: str) -> str:
        assert toml.count("shapes = [[1, 16], [1, 64]]") == feeds
        return re.sub(r"batch = \[1, .*\]", "batch = 1", toml)

    return build_service(model, folder, monkeypatch, edit)


def ask(library: Path, texts: list[str], **more: Any) -> list[Any]:
    return ask_service(library, {"texts": texts, **more})


def test_embeddings(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, (usual, queries) = json.loads((folders / "sentences" / "answers.json").read_text())
    library = build(folders / "sentences", tmp_path, monkeypatch)
    for wanted, prompt in ((usual, {}), (usual, {"prompt": "passage"}), (queries, {"prompt": "query"})):
        cosines = (np.array(ask(library, texts, **prompt)) * np.array(wanted)).sum(1)
        assert cosines.min() > 1 - 1e-6


def test_classes_of_texts(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, wanted = json.loads((folders / "moods" / "answers.json").read_text())
    answers = ask(build(folders / "moods", tmp_path, monkeypatch), texts)
    for own, published in zip(answers, wanted, strict=True):
        assert [row["label"] for row in own] == [row["label"] for row in published]
        np.testing.assert_allclose([row["probability"] for row in own], [row["score"] for row in published], atol=1e-5)


def test_labels_of_words(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, wanted = json.loads((folders / "names" / "answers.json").read_text())
    answers = ask(build(folders / "names", tmp_path, monkeypatch), texts)
    for own, published in zip(answers, wanted, strict=True):
        spans = [(row["entity_group"], row["start"], row["end"]) for row in published]
        assert [(row["label"], row["start"], row["end"]) for row in own] == spans
        np.testing.assert_allclose([row["score"] for row in own], [row["score"] for row in published], atol=1e-5)


def test_scores_of_pairs(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, scores, ranked = json.loads((folders / "pairs" / "answers.json").read_text())
    library = build(folders / "pairs", tmp_path, monkeypatch, feeds=3)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    np.testing.assert_allclose(ask(library, firsts, text_pairs=seconds), np.array(scores)[:, None], atol=1e-5)
    request = {"text": firsts[1], "text_pairs": firsts[:5]}
    np.testing.assert_allclose(ask_service(library, request), np.array(ranked)[:, None], atol=1e-5)


def test_classes_of_pairs(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, wanted, _ = json.loads((folders / "inference" / "answers.json").read_text())
    library = build(folders / "inference", tmp_path, monkeypatch)
    firsts, seconds = map(list, zip(*pairs, strict=True))
    for own, scores in zip(ask(library, firsts, text_pairs=seconds), wanted, strict=True):
        named = sorted(zip(scores, ["contradiction", "entailment", "neutral"], strict=True), reverse=True)
        assert [row["label"] for row in own] == [label for _, label in named]
        np.testing.assert_allclose([row["probability"] for row in own], [score for score, _ in named], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "lines"),
    [("many", ['kind = "classification"', 'activation = "sigmoid"']), ("number", ['kind = "regression"'])],
)
def test_other_answers(folders: Path, name: str, lines: list[str], tmp_path: Path) -> None:
    written = draft_model(folders / name, tmp_path)
    assert all(line in written for line in lines)


def test_a_cased_vocabulary(folders: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(folders / "names", tmp_path / "cased")
    pieces = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(sorted(pieces, key=pieces.__getitem__)))
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert "lowercase = false" in draft_model(folder, tmp_path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("headless", "has no weights for classifier.bias, classifier.weight"),
        ("writer", "GPT2LMHeadModel is not supported"),
        ("unmasked", "another answer where it is filled up"),
        ("instructor", "leaves out the prompt's tokens"),
        ("odd", "has steps that are not known here, of Transformer, Tanh"),
        ("sparse", "is a SparseEncoder of sentence-transformers"),
        ("gaps", "no name for class 1"),
        ("merges", "has no tokenizer.json"),
    ],
)
def test_refusal(folders: Path, name: str, reason: str, capsys: Any) -> None:
    check_refusal(folders / name, reason, capsys)
