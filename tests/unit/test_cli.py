"""The command line itself: what it offers, and that it starts where nothing is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from builder.cli import GROUPS, main
from builder.errors import UsageError
from tests.conftest import ROOT

NAMES = [command.name for group in GROUPS for command in group.COMMANDS]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: coldforge {name} ")


def test_all_commands_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("    ") and line[4] != " "] == NAMES
    assert len(set(NAMES)) == len(NAMES)


def test_a_model_named_twice_is_refused_before_anything_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "digits", "digits", "--in", "host"]) == UsageError.exit_code
    assert "digits is named twice" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bundle", "explain", "publish"])
def test_what_is_no_model_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "nowhere"]) == UsageError.exit_code
    assert "there is no model.toml at nowhere" in capsys.readouterr().err


def test_python_alone_can_ask_where_a_build_would_run() -> None:
    """``-S``: without site-packages."""
    command = [sys.executable, "-S", "-m", "builder.cli", "where", "--in", "host"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("host\n", "")
