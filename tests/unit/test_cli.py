"""The command line itself: what it offers, and that it starts where nothing is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from builder.bindings import LANGUAGES
from builder.cli import GROUPS, main
from builder.cli.command import named
from builder.cli.reference import reference
from builder.cli.results import RESULTS, document
from builder.errors import PIPE_CLOSED, UsageError
from tests.conftest import ROOT
from tests.support.results import printed

NAMES = [name for group in GROUPS for given in group for name, _ in named(given)]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: coldforge {name} ")


def test_the_page_of_commands_is_up_to_date() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m builder.cli.reference docs/cli.md"
    assert "| `--package zip\\|image` |" in page
    assert "| `--json` |" in page
    assert page.count("\n## ") == len(NAMES)


def test_the_schema_of_results_is_up_to_date() -> None:
    text = (ROOT / "docs" / "results.schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == document(), "run: python -m builder.cli.reference docs/cli.md"
    assert list(RESULTS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_json_and_says_what_comes_of_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The outputs are held against the schemas where the commands are tested (``tests.support.results``)."""
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    assert {"--json", "--quiet", "--verbose"} <= set(
        capsys.readouterr().out.replace("[", " ").replace("]", " ").split()
    )
    Draft202012Validator.check_schema(RESULTS[name])
    with pytest.raises(ValidationError, match=r"was unexpected|is a required property"):
        printed(name, '{"more": 1}')


def test_who_reads_a_result_may_stop(tmp_path: Path) -> None:
    """`coldforge doctor | head -1` ended with a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "builder.cli", "where", "--in", "host"],
        cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (PIPE_CLOSED, b"")


def test_all_commands_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("    ") and line[4] != " "] == [
        given.name for group in GROUPS for given in group
    ]
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
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert printed("where", done.stdout) == {"route": "host"}


@pytest.mark.parametrize(
    ("typed", "meant"), [("bundel", "bundle"), ("inspekt", "inspect"), ("verify-bundel", "verify-bundle")]
)
def test_a_command_that_is_not_there_gets_the_one_that_was_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed, "digits"]) == UsageError.exit_code
    assert f"there is no command {typed}. Did you mean `{meant}`?" in capsys.readouterr().err


def test_a_command_like_no_other_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyzzy"]) == UsageError.exit_code
    assert capsys.readouterr().err == "coldforge: there is no command xyzzy. `coldforge --help` lists them all.\n"


@pytest.mark.parametrize("name", ["flowers.keras", "my flowers.pb"])
def test_a_model_where_a_model_toml_belongs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was read as text, and refused as none."""
    model = tmp_path / name
    model.write_bytes(b"PK\x03\x04\xff")
    assert main(["bundle", str(model)]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert f"{model} is a trained model" in said
    assert "`coldforge init " in said


def test_a_folder_with_a_saved_model_is_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "saved_model.pb").touch()
    assert main(["bundle", str(tmp_path)]) == UsageError.exit_code
    assert "is a trained model" in capsys.readouterr().err
    (tmp_path / "model.toml").write_text("[model]\nname = 1\n")
    assert main(["bundle", str(tmp_path)]) != UsageError.exit_code


@pytest.mark.parametrize("command", ["bundle", "inspect"])
def test_a_model_file_that_is_not_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "nosuch.keras"]) == UsageError.exit_code
    assert capsys.readouterr().err == "coldforge: there is no file nosuch.keras.\n"


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_make_refuses_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")  # its answer to the question whether it is new enough
    old.chmod(0o755)
    done = make(f"PYTHON={old}", "bundle")
    assert done.returncode == 2
    assert done.stderr.endswith(f"PYTHON={old} is not Python 3.11, 3.12 or 3.13, which coldforge needs.  Stop.\n")
    assert make(f"PYTHON={sys.executable}", "help").returncode == 0


def test_make_refuses_a_language_before_it_builds_anything() -> None:
    done = make("bindings", "LANGUAGE=java", "MODEL=nowhere")
    assert done.returncode == 2
    assert f"there are no bindings for LANGUAGE=java; it is one of: {' '.join(LANGUAGES)}" in done.stderr
    assert "nowhere" not in done.stderr


def test_make_takes_one_path_with_spaces_or_several_models(tmp_path: Path) -> None:
    spec = tmp_path / "my models" / "model.toml"
    spec.parent.mkdir()
    spec.write_text("[model]\nname = 1\n")
    assert f'explain "{spec}"' in make("--dry-run", "explain", f"MODEL={spec}").stdout
    done = make("invoke", f"MODEL={spec}")
    assert f"{spec}:2" in done.stderr  # the file was read
    assert "no-model" in make("invoke", "MODEL=no-model no-other").stderr
