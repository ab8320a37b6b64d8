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
from tests.conftest import ROOT
from tests.support.published_folders import ask_service, build_service, check_refusal, write_folders

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]


@pytest.fixture(scope="module")
def presets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``keras_hub_cases`` leaves."""
    return write_folders("keras_hub", "keras_hub_cases.py", 11, tmp_path_factory.mktemp("presets"))


def test_classes_of_images(presets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    names, wanted = json.loads((presets / "pets" / "answers.json").read_text())

    def edit(toml: str) -> str:
        assert all(line in toml for line in ('fit = "cover"', 'resize = "bicubic"', 'activation = "softmax"'))
        return f'{toml}labels = ["a", "b", "c", "d", "e"]\n'

    library = build_service(presets / "pets", tmp_path, monkeypatch, edit)
    files = [base64.b64encode((ROOT / "tests" / "data" / name).read_bytes()).decode() for name in names]
    for own, published in zip(ask_service(library, {"images": files}), wanted, strict=True):
        chances = {row["label"]: row["probability"] for row in own}
        np.testing.assert_allclose([chances[label] for label in "abcde"], published, atol=0.005)
    toml = tmp_path / "service" / "model.toml"
    toml.write_text(re.sub("scale = .*", "scale = 1.0", toml.read_text()))
    assert main(["bundle", str(toml), "--in", "host"]) == ImportModelError.exit_code
    assert "[image] and the model's own image processor make different numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "reason"),
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
def test_refusal(presets: Path, name: str, reason: str, capsys: Any) -> None:
    check_refusal(presets / name, reason, capsys)
