"""Folders of CLIP and SigLIP: from ``coldforge init`` to a function with vectors of texts and images in one space."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.cli import main
from builder.package.bundle import Bundle
from tests.conftest import ROOT
from tests.support.function import served
from tests.support.models import empty_project
from tests.support.published_folders import check_refusal, write_folders

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]

PHOTOGRAPH = ROOT / "tests" / "data" / "coffee.jpg"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``transformers_tower_cases`` leaves."""
    return write_folders("transformers", "transformers_tower_cases.py", 5, tmp_path_factory.mktemp("transformers"))


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_towers(folders: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = empty_project(tmp_path, monkeypatch)
    for tower in ("image", "text"):
        toml = tmp_path / f"{tower}.toml"
        assert main(["init", str(folders / kind), "--signature", tower, "--output", str(toml)]) == 0
        toml.write_text(re.sub(r"batch = \[1, .*\]", "batch = 1", toml.read_text()))
    assert main(["bundle", str(tmp_path / "image.toml"), str(tmp_path / "text.toml"), "--in", "host"]) == 0
    wanted = json.loads((folders / kind / "answers.json").read_text())
    texts, vectors = wanted["texts"]
    image = base64.b64encode(PHOTOGRAPH.read_bytes()).decode()
    library = Bundle.load(project.dist / f"{kind}_image-{kind}_text").library
    events = {"model": f"{kind}_text", "texts": texts}, {"model": f"{kind}_image", "image": image}
    of_texts, of_image = served(library, *events).answers
    found = np.array([prediction[f"{kind}_text"] for prediction in of_texts["predictions"]])
    assert (found * np.array(vectors)).sum(1).min() > 1 - 1e-6
    (prediction,) = of_image["predictions"]
    assert np.dot(prediction[f"{kind}_image"], wanted["image"]) > 0.9999


@pytest.mark.parametrize(
    ("name", "signature", "reason"),
    [
        ("clip", "sound", 'has no signature "sound": write image or text'),
        ("alone", "image", 'has no signature "image": write text'),
        ("modules", "text", "with modules of sentence-transformers"),
    ],
)
def test_refusal(folders: Path, name: str, signature: str, reason: str, tmp_path: Path, capsys: Any) -> None:
    model = tmp_path / name
    shutil.copytree(folders / ("clip" if name == "modules" else name), model)
    if name == "modules":
        (model / "modules.json").write_text("[]")
    check_refusal(model, reason, capsys, "--signature", signature)
