"""Folders of transformers' models of sound: from ``coldforge new`` to a function that answers as the pipeline does."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.errors import ImportModelError
from builder.cli import main
from builder.package.bundle import Bundle
from tests.support.framework_scripts import run_script
from tests.support.function import served
from tests.support.models import empty_project
from tests.support.sounds import tune, wav

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]

RATE, WINDOW = 16_000, 6_000
SAMPLES = tune(2 * WINDOW, 1, 16) / 32_768


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``transformers_audio_cases`` leaves."""
    folder = tmp_path_factory.mktemp("transformers")
    said = run_script("transformers", "transformers_audio_cases.py", folder)
    assert said.splitlines()[-1] == "13 of 13 agree", said
    return folder


def ask(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, length: str, own: str, samples: Any) -> list[Any]:
    """Return what the function of the drafted project answers to a WAV file, with its ``own`` length of windows."""
    project = empty_project(folder, monkeypatch)
    assert main(["new", str(folder / "service"), "--from", str(model)]) == 0
    toml = folder / "service" / "model.toml"
    written = toml.read_text()
    assert written.count(f"length = {length}\n") == 1
    toml.write_text(written.replace(f"length = {length}\n", f"length = {own}\n"))
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    recording = base64.b64encode(wav("s16", samples, RATE)).decode()
    (answer,) = served(Bundle.load(project.dist / "service").library, {"audio": recording}).answers
    assert "predictions" in answer, answer
    return [prediction["service"] for prediction in answer["predictions"]]


def check_scores(answers: list[Any], path: Path) -> None:
    wanted = json.loads((path / "answers.json").read_text())
    assert len(answers) == len(wanted)
    for own, published in zip(answers, wanted, strict=True):
        assert [row["label"] for row in own] == [row["label"] for row in published]
        np.testing.assert_allclose([row["probability"] for row in own], [row["score"] for row in published], atol=1e-5)


def test_windows_of_a_recording(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ask(folders / "sounds", tmp_path, monkeypatch, "48000", str(WINDOW), SAMPLES)
    check_scores(answers, folders / "sounds")


def test_short_recording(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spectrogram's frames behind a recording are zeros, and not the logarithms of zeros."""
    answers = ask(folders / "whole", tmp_path, monkeypatch, "10480", "10480", SAMPLES[:WINDOW])
    check_scores(answers, folders / "whole")


@pytest.mark.parametrize(
    ("name", "lines"),
    [("many", ['activation = "sigmoid"', "length = 48000"]), ("vectors", ['kind = "embedding"', "rate = 16000"])],
)
def test_other_answers(folders: Path, name: str, lines: list[str], tmp_path: Path) -> None:
    toml = tmp_path / "model.toml"
    assert main(["init", str(folders / name), "--output", str(toml)]) == 0
    assert all(line in toml.read_text() for line in lines)


def test_missing_extractor(folders: Path, tmp_path: Path, capsys: Any) -> None:
    (folders / "many" / "preprocessor_config.json").rename(tmp_path / "elsewhere.json")
    command = ["init", str(folders / "many"), "--output", str(tmp_path / "model.toml")]
    assert main(command) == ImportModelError.exit_code
    assert "preprocessor_config.json says what the model takes" in capsys.readouterr().err
