"""Image models of transformers: from ``coldforge new`` to a function that answers as the published pipelines do."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builder.base.errors import ImportModelError
from builder.cli import main
from tests.conftest import ROOT
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
    """The folder with what ``image_cases`` leaves."""
    return write_folders("transformers", "image_cases.py", 24, tmp_path_factory.mktemp("images"))


def ask(library: Path, names: list[str], output: str = "service", **options: float) -> list[Any]:
    files = [base64.b64encode((ROOT / "tests" / "data" / name).read_bytes()).decode() for name in names]
    return ask_service(library, {"images": files, **options}, output)


def test_classes_of_images(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names, wanted = json.loads((folders / "pets" / "answers.json").read_text())
    for own, published in zip(ask(build_service(folders / "pets", tmp_path, monkeypatch), names), wanted, strict=True):
        assert [row["label"] for row in own] == [row["label"] for row in published]
        np.testing.assert_allclose([row["probability"] for row in own], [row["score"] for row in published], atol=0.005)
    toml = tmp_path / "service" / "model.toml"
    toml.write_text(re.sub("scale = .*", "scale = 1.0", toml.read_text()))
    assert main(["bundle", str(toml), "--in", "host"]) == ImportModelError.exit_code
    assert "[image] and the model's own image processor make different numbers" in capsys.readouterr().err


def test_classes_of_pixels(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, wanted = json.loads((folders / "streets" / "answers.json").read_text())
    answers = ask(build_service(folders / "streets", tmp_path, monkeypatch), names)
    for own, published in zip(answers, wanted, strict=True):
        classes = np.asarray(Image.open(io.BytesIO(base64.b64decode(own["png"]))))
        assert len(np.unique(published)) > 2
        assert (classes == np.array(published)).mean() > 0.95  # At edges: the pipeline resizes scores, not classes.


def test_objects_in_images(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, answers = json.loads((folders / "finds" / "answers.json").read_text())
    at = names.index("coffee.jpg")  # Others are not 3 : 2, and have edges here.
    (own,) = ask(build_service(folders / "finds", tmp_path, monkeypatch), names[at : at + 1], "objects", threshold=0.0)
    wanted = sorted(answers[at], key=lambda row: -row["score"])
    assert [row["label"] for row in own] == [row["label"] for row in wanted]
    np.testing.assert_allclose([row["score"] for row in own], [row["score"] for row in wanted], atol=1e-4)
    boxes = [[row["box"][side] for side in ("xmin", "ymin", "xmax", "ymax")] for row in wanted]
    np.testing.assert_allclose([row["box"] for row in own], boxes, atol=1.01)  # The pipeline cuts to whole pixels.


@pytest.mark.parametrize(
    ("name", "lines"),
    [("traits", ['kind = "classification"', 'activation = "sigmoid"']), ("vectors", ['kind = "embedding"'])],
)
def test_other_answers(folders: Path, name: str, lines: list[str], tmp_path: Path) -> None:
    written = draft_model(folders / name, tmp_path)
    assert all(line in written for line in lines)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("blind", "its image processor cannot be loaded"),
        ("any_size", "ViTImageProcessor, gives images of different"),
        ("timm", "is a model of timm, which is not read"),
        ("several", "ConditionalDetrImageProcessor, finds objects in the model's answers in a way"),
    ],
)
def test_refusal(folders: Path, name: str, reason: str, capsys: Any) -> None:
    check_refusal(folders / name, reason, capsys)
