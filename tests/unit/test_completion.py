"""What the Tab key completes, asked by a real bash that evaluated the script."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from builder.cli import main
from builder.cli.argument_parser import SHELLS, format_completion_script
from tests.conftest import ROOT
from tests.support import needs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The current folder of a user, with a program ``coldforge`` on the path."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "coldforge"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m builder.cli "$@"\n')
    program.chmod(0o755)
    (tmp_path / "flowers").mkdir()
    (tmp_path / "flowers" / "model.toml").touch()
    return tmp_path


def tab(line: str, folder: Path) -> list[str]:
    """The words that bash offers behind ``line``."""
    words = line.split(" ")
    asked = f"""
        eval "$(coldforge --completion bash)"
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_TYPE=9 COMP_KEY=9
        COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}
        _python_argcomplete coldforge {shlex.quote(words[-1])} {shlex.quote(words[-2])}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [needs.needs("bash"), "-c", asked], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [word.strip() for word in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("coldforge bu", ["bundle"]),
        ("coldforge bundle --pa", ["--package"]),
        ("coldforge bundle --package ", ["image", "zip"]),
        ("coldforge bindings digits --lang ru", ["rust"]),
    ],
)
def test_commands_options_and_names(line: str, offered: list[str], folder: Path) -> None:
    assert sorted(tab(line, folder)) == offered


def test_models_are_the_examples_and_what_is_here(folder: Path) -> None:
    found = tab("coldforge bundle ", folder)
    assert {"digits", "emotion", "age_gender", "flowers"} <= set(found)
    assert tab("coldforge explain flow", folder) in (["flowers"], ["flowers", "flowers/"])


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--completion", shell])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{format_completion_script(shell)}\n"
    assert "coldforge" in format_completion_script(shell)


def test_without_the_package_the_command_that_installs_it() -> None:
    command = [sys.executable, "-S", "-m", "builder.cli", "--completion", "bash"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (19, "")
    assert "`make setup` installs it" in done.stderr
