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
from builder.package.bundle import Bundle
from tests.conftest import ROOT
from tests.support.framework_scripts import run_script
from tests.support.function import served
from tests.support.models import empty_project

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``image_cases`` leaves."""
    folder = tmp_path_factory.mktemp("images")
    said = run_script("transformers", "image_cases.py", folder)
    assert said.splitlines()[-1] == "24 of 24 agree", said
    return folder


def build(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the library of the project that ``coldforge new`` writes for ``model``."""
    project = empty_project(folder, monkeypatch)
    assert main(["new", str(folder / "service"), "--from", str(model)]) == 0
    assert main(["bundle", str(folder / "service" / "model.toml"), "--in", "host"]) == 0
    return Bundle.load(project.dist / "service").library


def ask(library: Path, names: list[str], **options: float) -> list[Any]:
    files = [base64.b64encode((ROOT / "tests" / "data" / name).read_bytes()).decode() for name in names]
    (answer,) = served(library, {"images": files, **options}).answers
    assert "predictions" in answer, answer
    return [next(iter(prediction.values())) for prediction in answer["predictions"]]


def test_classes_of_images(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names, wanted = json.loads((folders / "pets" / "answers.json").read_text())
    for own, published in zip(ask(build(folders / "pets", tmp_path, monkeypatch), names), wanted, strict=True):
        assert [row["label"] for row in own] == [row["label"] for row in published]
        np.testing.assert_allclose([row["probability"] for row in own], [row["score"] for row in published], atol=0.005)
    toml = tmp_path / "service" / "model.toml"
    toml.write_text(re.sub("scale = .*", "scale = 1.0", toml.read_text()))
    assert main(["bundle", str(toml), "--in", "host"]) == ImportModelError.exit_code
    assert "[image] and the model's own image processor make different numbers" in capsys.readouterr().err


def test_classes_of_pixels(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, wanted = json.loads((folders / "streets" / "answers.json").read_text())
    for own, published in zip(ask(build(folders / "streets", tmp_path, monkeypatch), names), wanted, strict=True):
        classes = np.asarray(Image.open(io.BytesIO(base64.b64decode(own["png"]))))
        assert len(np.unique(published)) > 2
        assert (classes == np.array(published)).mean() > 0.95  # At edges: the pipeline resizes scores, not classes.


def test_objects_in_images(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, answers = json.loads((folders / "finds" / "answers.json").read_text())
    at = names.index("coffee.jpg")  # Others are not 3 : 2, and have edges here.
    (own,) = ask(build(folders / "finds", tmp_path, monkeypatch), names[at : at + 1], threshold=0.0)
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
    toml = tmp_path / "model.toml"
    assert main(["init", str(folders / name), "--output", str(toml)]) == 0
    assert all(line in toml.read_text() for line in lines)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blind", "its image processor cannot be loaded"),
        ("any_size", "ViTImageProcessor, gives images of different"),
        ("timm", "is a model of timm, which is not read"),
        ("several", "ConditionalDetrImageProcessor, finds objects in the model's answers in a way"),
    ],
)
def test_what_is_refused(folders: Path, name: str, said: str, tmp_path: Path, capsys: Any) -> None:
    command = ["init", str(folders / name), "--output", str(tmp_path / "model.toml")]
    assert main(command) == ImportModelError.exit_code
    assert said in capsys.readouterr().err
