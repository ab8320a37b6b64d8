"""The pre-commit hook: the very command that pre-commit runs, with an interpreter that has no packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from builder.cli import main
from tests.conftest import ROOT
from tests.support.results import printed

(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
SPECS = sorted((ROOT / "examples").glob("*/model.toml"))


def run(folder: Path, *specs: Path) -> subprocess.CompletedProcess[str]:
    """The hook in ``folder``; -S leaves it no site-packages, so that anything but Python's own would fail."""
    command = [sys.executable, "-S", ROOT / HOOK["entry"], *specs]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_pre_commit_can_run_it_and_finds_the_files() -> None:
    assert HOOK["language"] == "script"  # it installs nothing
    assert os.access(ROOT / HOOK["entry"], os.X_OK)
    assert (ROOT / HOOK["entry"]).read_text().startswith("#!/usr/bin/env python3\n")
    for path, matches in (("model.toml", True), ("a/b/model.toml", True), ("my-model.toml", False)):
        assert bool(re.search(HOOK["files"], path)) is matches


def test_right_specs_pass(tmp_path: Path) -> None:
    done = run(tmp_path, *SPECS)
    assert len(SPECS) >= 3
    assert (done.returncode, done.stderr) == (0, "")


def test_every_mistake_of_every_file_is_told_with_its_line(tmp_path: Path) -> None:
    for name, key in (("a", "nmae"), ("b", "vresion")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.toml").write_text(f'[model]\nsource = "x.keras"\n{key} = "x"\n')
    done = run(tmp_path, Path("a/model.toml"), SPECS[0], Path("b/model.toml"))
    assert done.returncode == 10
    assert "a/model.toml:3: [model].nmae" in done.stderr
    assert "b/model.toml:3: [model].vresion" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_names_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-spec", "--json", *map(str, SPECS)]) == 0
    found = printed("check-spec", capsys.readouterr().out)["specs"]
    assert [one["name"] for one in found] == [path.parent.name for path in SPECS]
