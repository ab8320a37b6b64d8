"""Folders of transformers' models of sound: from ``coldforge new`` to a function that answers as the pipeline does."""

from __future__ import annotations

import base64
import json
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
from tests.support.sounds import tune, wav

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.full]

RATE, WINDOW = 16_000, 6_000
SAMPLES = tune(2 * WINDOW, 1, 16) / 32_768


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what ``transformers_audio_cases`` leaves."""
    return write_folders("transformers", "transformers_audio_cases.py", 13, tmp_path_factory.mktemp("transformers"))


def ask(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, length: str, own: str, samples: Any) -> list[Any]:
    """Return what the function of the drafted project answers to a WAV file, with its ``own`` length of windows."""

    def edit(toml: str) -> str:
        assert toml.count(f"length = {length}\n") == 1
        return toml.replace(f"length = {length}\n", f"length = {own}\n")

    library = build_service(model, folder, monkeypatch, edit)
    return ask_service(library, {"audio": base64.b64encode(wav("s16", samples, RATE)).decode()})


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
    written = draft_model(folders / name, tmp_path)
    assert all(line in written for line in lines)


def test_missing_extractor(folders: Path, tmp_path: Path, capsys: Any) -> None:
    (folders / "many" / "preprocessor_config.json").rename(tmp_path / "elsewhere.json")
    check_refusal(folders / "many", "preprocessor_config.json says what the model takes", capsys)
