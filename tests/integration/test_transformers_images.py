"""Image models of transformers: from ``coldforge new`` to a function that answers as the published pipelines do."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    assert said.splitlines()[-1] == "21 of 21 agree", said
    return folder


def test_classes_of_images(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names, wanted = json.loads((folders / "pets" / "answers.json").read_text())
    project = empty_project(tmp_path, monkeypatch)
    assert main(["new", str(tmp_path / "service"), "--from", str(folders / "pets")]) == 0
    toml = tmp_path / "service" / "model.toml"
    written = toml.read_text()
    assert 'fit = "short_exact"' in written
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    files = [base64.b64encode((ROOT / "tests" / "data" / name).read_bytes()).decode() for name in names]
    (answer,) = served(Bundle.load(project.dist / "service").library, {"images": files}).answers
    for own, published in zip(answer["predictions"], wanted, strict=True):
        own = own["service"]
        assert [row["label"] for row in own] == [row["label"] for row in published]
        np.testing.assert_allclose([row["probability"] for row in own], [row["score"] for row in published], atol=0.005)
    toml.write_text(re.sub("scale = .*", "scale = 1.0", written))
    assert main(["bundle", str(toml), "--in", "host"]) == ImportModelError.exit_code
    assert "[image] and the model's own image processor make different numbers" in capsys.readouterr().err


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
    [("blind", "its image processor cannot be loaded"), ("any_size", "ViTImageProcessor, gives images of different")],
)
def test_what_is_refused(folders: Path, name: str, said: str, tmp_path: Path, capsys: Any) -> None:
    command = ["init", str(folders / name), "--output", str(tmp_path / "model.toml")]
    assert main(command) == ImportModelError.exit_code
    assert said in capsys.readouterr().err
