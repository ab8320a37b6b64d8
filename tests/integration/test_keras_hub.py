"""Presets of KerasHub: from ``coldforge new`` to a function that answers as the task's own preprocessing and model."""

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
def presets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``keras_hub_cases`` leaves."""
    folder = tmp_path_factory.mktemp("presets")
    said = run_script("keras_hub", "keras_hub_cases.py", folder)
    assert said.splitlines()[-1] == "11 of 11 agree", said
    return folder


def test_classes_of_images(presets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names, wanted = json.loads((presets / "pets" / "answers.json").read_text())
    project = empty_project(tmp_path, monkeypatch)
    assert main(["new", str(tmp_path / "service"), "--from", str(presets / "pets")]) == 0
    toml = tmp_path / "service" / "model.toml"
    written = toml.read_text()
    assert all(line in written for line in ('fit = "cover"', 'resize = "bicubic"', 'activation = "softmax"'))
    toml.write_text(f'{written}labels = ["a", "b", "c", "d", "e"]\n')
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    files = [base64.b64encode((ROOT / "tests" / "data" / name).read_bytes()).decode() for name in names]
    (answer,) = served(Bundle.load(project.dist / "service").library, {"images": files}).answers
    for own, published in zip(answer["predictions"], wanted, strict=True):
        chances = {row["label"]: row["probability"] for row in own["service"]}
        np.testing.assert_allclose([chances[label] for label in "abcde"], published, atol=0.005)
    toml.write_text(re.sub("scale = .*", "scale = 1.0", written))
    assert main(["bundle", str(toml), "--in", "host"]) == ImportModelError.exit_code
    assert "[image] and the model's own image processor make different numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("backbone", "backbone is ResNetBackbone alone, without a task"),
        ("texts", "the task BertTextClassifier is not supported"),
        ("headless", "so the weights of its ResNetImageClassifier would be random"),
        ("any_size", "takes images of any size"),
        ("padded", "pads images and then resizes them by bicubic"),
        ("foreign", "needs code besides Keras' own, which is not run: Block"),
        ("code", "needs code besides Keras' own, which is not run: Lambda"),
        ("registered", "needs code besides Keras' own, which is not run: Block"),
    ],
)
def test_what_is_refused(presets: Path, name: str, said: str, tmp_path: Path, capsys: Any) -> None:
    command = ["init", str(presets / name), "--output", str(tmp_path / "model.toml")]
    assert main(command) == ImportModelError.exit_code
    assert said in capsys.readouterr().err
