"""Folders as Hugging Face and Kaggle publish them: what scripts leave, services of them, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.base.errors import ImportModelError
from builder.cli import main
from builder.config import Format
from builder.package.bundle import Bundle
from tests.support.framework_scripts import run_script
from tests.support.function import served
from tests.support.models import empty_project


def write_folders(form: Format, script: str, cases: int, folder: Path) -> Path:
    """Return the ``folder`` in which ``script`` left models, all ``cases`` of which must agree with their framework."""
    printed = run_script(form, script, folder)
    assert printed.splitlines()[-1] == f"{cases} of {cases} agree", printed
    return folder


def build_service(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], str] = lambda toml: toml
) -> Path:
    """Return the library of the project that ``coldforge new`` writes for ``model``, after an edit of model.toml."""
    project = empty_project(folder, monkeypatch)
    assert main(["new", str(folder / "service"), "--from", str(model)]) == 0
    toml = folder / "service" / "model.toml"
    toml.write_text(edit(toml.read_text()))
    assert main(["bundle", str(toml), "--in", "host"]) == 0
    return Bundle.load(project.dist / "service").library


def ask_service(library: Path, request: dict[str, Any], output: str = "service") -> list[Any]:
    """Return each prediction's answer for ``output``, from one request to the function."""
    (answer,) = served(library, request).answers
    assert "predictions" in answer, answer
    return [prediction[output] for prediction in answer["predictions"]]


def draft_model(model: Path, folder: Path) -> str:
    """Return the model.toml that ``coldforge init`` writes for ``model``."""
    toml = folder / "model.toml"
    assert main(["init", str(model), "--output", str(toml)]) == 0
    return toml.read_text()


def check_refusal(model: Path, reason: str, capsys: Any, *options: str) -> None:
    """Check that ``coldforge init`` refuses ``model`` for the ``reason`` and writes no model.toml."""
    toml = model.parent / "refused.toml"
    assert main(["init", str(model), "--output", str(toml), *options]) == ImportModelError.exit_code
    assert reason in capsys.readouterr().err
    assert not toml.exists()
