"""The GitHub Action: its steps as GitHub's shell runs them. Only `gh` is a stand-in, which says what it was asked.

Installing and building are what `make bundle` does; the steps after it run here on real bundles.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from builder.package.bundle import Bundle
from tests.conftest import ROOT

pytestmark = pytest.mark.integration

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
SCRIPTS = {name: step for name, step in STEPS.items() if "run" in step}


def test_the_action_is_one_that_github_runs() -> None:
    assert ACTION["runs"]["using"] == "composite"
    ids = [step["id"] for step in STEPS.values() if "id" in step]
    named = re.findall(r"steps\.(\w+)\.outputs\.(\w+)", (ROOT / "action.yml").read_text())
    assert {step for step, _ in named} <= set(ids)
    for step, output in named:
        (script,) = (row["run"] for row in SCRIPTS.values() if row.get("id") == step)
        assert f'echo "{output}=' in script
    inputs = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text()))
    assert inputs == set(ACTION["inputs"])
    assert (ROOT / "requirements" / "build.txt").is_file()


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_text_of_a_caller_becomes_part_of_a_script(name: str) -> None:
    """A branch may be called `$(...)`: values reach the shell in variables alone, quoted."""
    step = SCRIPTS[name]
    assert "${{" not in step["run"]
    assert step["shell"] == "bash"
    assert subprocess.run(["bash", "-n"], input=step["run"], text=True, check=False).returncode == 0
    for variable in step.get("env", {}).keys() - {"GH_TOKEN"}:
        assert f'"${variable}"' in step["run"]


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """The environment of a runner with coldforge installed, and a `gh` that keeps its arguments and its file."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "coldforge").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m builder.cli "$@"\n')
    said = 'echo "$*" > "$RUNNER_TEMP/asked"; cat "$last" > "$RUNNER_TEMP/said"'
    (programs / "gh").write_text(f"#!/bin/sh\nfor last; do :; done\n{said}\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    for name in ("output", "summary"):
        (tmp_path / name).touch()
    return os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_REPOSITORY": "team/model",
    }


def run(name: str, runner: dict[str, str], folder: Path, **variables: str) -> dict[str, str]:
    """A step as GitHub runs it; what it put out so far, by name."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", SCRIPTS[name]["run"]]
    done = subprocess.run(command, cwd=folder, env=runner | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = Path(runner["GITHUB_OUTPUT"]).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_pull_request_is_told_what_changed(digits: Bundle, runner: dict[str, str], tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(digits.folder, before)
    found = run("Compare them", runner, tmp_path, BEFORE=str(before), AFTER=str(digits.folder))
    report = Path(found["report"]).read_text()
    assert "libmodel.so" in report
    assert "**Size**" in report
    assert (tmp_path / "summary").read_text() == report
    run("Comment on the pull request", runner, tmp_path, NUMBER="7", REPORT=found["report"], GH_TOKEN="none")
    assert (tmp_path / "said").read_text() == report
    assert (tmp_path / "asked").read_text().startswith("pr comment 7 --repo team/model --edit-last --create-if-none ")


def test_a_new_model_has_nothing_to_be_compared_with(runner: dict[str, str], tmp_path: Path) -> None:
    def git(*words: str) -> str:
        own = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
        command = ["git", *own, *words]
        return subprocess.run(command, cwd=tmp_path / "head", capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "head").mkdir()
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "before")
    git("remote", "add", "origin", str(tmp_path / "head"))
    base = git("rev-parse", "HEAD")
    found = run("Build the base branch's bundle", runner, tmp_path / "head", MODEL="a model.toml", BASE=base)
    assert found == {}
