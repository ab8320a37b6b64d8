"""The models of examples that a script writes: made when they are missing or older, and nothing else is run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError
from builder.base.project import Project
from builder.cli.command import load_named_spec
from builder.sources.trained_examples import SCRIPTS, ensure_trained
from tests.conftest import ROOT

Train = Callable[[], list[str]]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A checkout with an example ``tiny``, whose script adds a line to its model."""
    folder = tmp_path / "examples" / "tiny"
    folder.mkdir(parents=True)
    (folder / "model.toml").write_text('[model]\nsource = "../../build/tiny/model.keras"\n')
    (folder / "train.py").write_text(
        "from pathlib import Path\n"
        "with (Path(__file__).parents[2] / 'build' / 'tiny' / 'model.keras').open('a') as model:\n"
        "    model.write('trained\\n')\n"
    )
    return Project(tmp_path, tmp_path)


def train(project: Project) -> list[str]:
    """Have the model of ``tiny`` made, and return what a person hears of that."""
    told: list[str] = []
    ensure_trained(load_named_spec("tiny", project), project, told.append)
    return told


def test_a_model_is_made_once_and_again_when_its_script_is_newer(project: Project) -> None:
    model, script = (project.root / name for name in ("build/tiny/model.keras", "examples/tiny/train.py"))
    assert "train.py" in train(project)[0]
    assert train(project) == []
    assert model.read_text() == "trained\n"
    later = model.stat().st_mtime + 10
    os.utime(script, (later, later))
    assert train(project) != []
    assert model.read_text() == "trained\ntrained\n"


def test_a_script_that_fails_is_an_error_with_its_words(project: Project) -> None:
    (project.examples / "tiny" / "train.py").write_text("raise SystemExit('too few are right')")
    with pytest.raises(EnvironmentSetupError, match="too few are right"):
        train(project)


def test_a_script_beside_a_users_own_model_is_not_run(project: Project, tmp_path: Path) -> None:
    """It may be anything: a model.toml elsewhere names a model that is there, or is an error."""
    own = tmp_path / "own"
    (project.examples / "tiny").rename(own)
    ensure_trained(load_named_spec(str(own), project), project, pytest.fail)
    assert not (tmp_path / "build").exists()


def test_every_example_without_a_fetched_model_has_a_script_that_make_knows() -> None:
    """The Makefile names them, as it sets up what the scripts need."""
    here = Project(ROOT)
    folders = [path.parent for path in here.examples.glob("*/model.toml")]
    trained = {folder.name for folder in folders if load_named_spec(folder.name, here).source.path}
    assert trained == {folder.name for folder in folders if any((folder / name).is_file() for name in SCRIPTS)}
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("TRAINED := ")]
    assert set(line.split()[2:]) == trained
