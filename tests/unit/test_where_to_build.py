"""Where a build goes, by what is asked for, the machine's system and what its Docker can do.

The systems are made up, with a client that is a script; tests/integration/test_first_run.py and
tests/e2e/test_engine.py have the real one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.config import ModelSpec
from builder.config.parser import read_spec
from builder.pipeline.docker.docker_client import BuilderImage
from builder.pipeline.docker.route import Route, choose_route
from tests.conftest import ROOT

IMAGE = BuilderImage.from_environment(ROOT / "requirements" / "build.txt", {})


def choose(build_in: str, system: str, *specs: ModelSpec) -> tuple[Route, list[str]]:
    """The route, and what was said about it."""
    lines: list[str] = []
    return choose_route(build_in, specs, IMAGE, lines.append, system), lines


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """A client whose engine answers, or does not."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{'echo 29.0' if answers else 'echo no engine >&2; exit 1'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("DOCKER", str(program))


@pytest.mark.parametrize(
    ("asked", "system", "answers", "wanted"),
    [
        ("auto", "Linux", True, "docker"),
        ("auto", "Linux", False, "host"),
        ("host", "Linux", True, "host"),
        ("docker", "Linux", True, "docker"),
        ("docker", "Linux", False, "BUILD_IN=host"),
        ("auto", "Darwin", True, "docker"),
        ("docker", "Darwin", True, "docker"),
        ("auto", "Darwin", False, "Darwin needs Docker.*no engine"),
        ("host", "Darwin", True, "build there: --in docker"),
        ("host", "Windows", False, "needs Linux"),
    ],
)
def test_the_route(
    asked: str, system: str, answers: bool, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(tmp_path, monkeypatch, answers)
    if wanted in ("docker", "host"):
        route, lines = choose(asked, system)
        assert route == wanted
        assert len(lines) == (asked == "auto" and route == "host")
    else:
        with pytest.raises(EnvironmentSetupError, match=wanted):
            choose(asked, system)


def test_another_word_is_refused() -> None:
    with pytest.raises(UsageError, match="docker, host or auto"):
        choose("cloud", "Linux")


@pytest.mark.parametrize(
    ("asked", "system", "source", "wanted"),
    [
        ("auto", "Linux", "model.keras", "docker"),
        ("auto", "Linux", "model.pt2", "host"),
        ("auto", "Linux", "model.jax", "host"),
        ("docker", "Linux", "model.pt2", "docker"),  # which refuses it, and says why
        ("auto", "Darwin", "model.pt2", "docker"),
    ],
)
def test_a_model_that_the_image_cannot_read(
    asked: str, system: str, source: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(tmp_path, monkeypatch, answers=True)
    (tmp_path / "model.toml").write_text(f'[model]\nname = "one"\nsource = "{source}"\ntrust = true\n')
    assert choose(asked, system, read_spec(tmp_path / "model.toml"))[0] == wanted
