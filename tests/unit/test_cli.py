"""The command line itself: what it offers, and that it starts where nothing is installed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from builder.base.errors import PIPE_CLOSED, UsageError
from builder.cli import GROUPS, list_commands, main, make_parser
from builder.cli.results import RESULTS
from builder.release.bindings.language_packages import LANGUAGES
from tests.conftest import ROOT
from tests.support.results import printed

BY_NAME = {command.name: command for command in list_commands()}
NAMES = list(BY_NAME)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    help = capsys.readouterr().out
    assert help.startswith(f"usage: coldforge {name} ")
    assert f"{BY_NAME[name].help[1:]}." in help
    assert help.endswith(f"\nexample: {BY_NAME[name].usage}\n")


@pytest.mark.parametrize("name", NAMES)
def test_every_commands_example_is_one_of_it(name: str) -> None:
    options = make_parser().parse_args(shlex.split(BY_NAME[name].usage)[1:])
    assert options.command is BY_NAME[name].run


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("init", ("pixels", "elements")),
        ("invoke", ("milliseconds",)),
        ("serve", ("milliseconds",)),
        ("bench", ("milliseconds",)),
        ("cost", ("milliseconds", "US dollars")),
    ],
)
def test_commands_that_print_numbers_say_in_which_unit(
    name: str, units: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    help = capsys.readouterr().out
    assert all(unit in help for unit in units)


def test_the_page_of_commands_has_all_of_them() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert "| `--package zip\\|image` |" in page
    assert "| `--json` |" in page
    assert page.count("\n## ") == len(NAMES)
    assert set(RESULTS) == set(NAMES)


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
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (PIPE_CLOSED, b"")


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_all_commands_are_listed_once_each_in_its_group(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert list(GROUPS) == ["Start", "Build", "Try", "Inspect", "Deploy", "Trust"]
    for group, commands in GROUPS.items():
        section = text.split(f"\n{group}\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == [command.name for command in commands]
        assert all(len(line) <= 80 for line in section.splitlines())
    assert len(NAMES) == len(list(list_commands()))


def test_a_family_alone_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch"]) == 0
    assert "say how far a run is" in capsys.readouterr().out


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
    ("typed", "meant"),
    [
        ("bundel digits", "bundle"),
        ("inspekt digits", "inspect"),
        ("verify-bundel digits", "verify-bundle"),
        ("batch statr", "start"),
        ("bundle --taget arm64", "--target"),
        ("bundle --taget=arm64", "--target"),
        ("sign dist/digits --kee private.pem", "--key"),  # which is missing, too
        ("batch start s3://a/b --dryrun", "--dry-run"),
        ("--completoin bash", "--completion"),
        ("bundle --package zpi", "zip"),
        ("bindings emotion --lang rsut", "rust"),
        ("bundle --in hosst", "host"),
        ("bundle emotoin", "emotion"),
        ("diff emotoin digits", "emotion"),
        ("report diggits", "digits"),
        ("deploy emotoin", "emotion"),
    ],
)
def test_a_name_that_is_not_there_gets_the_one_that_was_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed.split()) == UsageError.exit_code
    said = capsys.readouterr().err
    assert f"Did you mean {meant}?" in said
    assert "usage:" not in said


@pytest.mark.parametrize("typed", ["xyzzy", "bundle --xyzzy", "doctor xyzzy", "sign", "serve --port abc", "--x"])
def test_what_is_like_nothing_else_is_refused_in_a_line_that_names_the_help(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed.split()) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "Did you mean" not in said
    assert said.count("\n") == 1
    assert " --help`" in said


@pytest.mark.parametrize("port", ["99999", "65536", "-1", "abc", "", "8080.5", "1e3", "٣"])
def test_what_is_no_port_is_refused_before_anything_is_started(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "emotion", f"--port={port}"]) == UsageError.exit_code
    assert "--port" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "explain emotion --threads 0",
        "explain emotion --seconds nan",
        "diff a b --threads -1",
        "bench emotion --starts -1",
        "bench emotion --seconds 0",
        "cost emotion --memory 442 0",
        "report emotion --starts 1.5",
        "publish emotion --prune 0",
        "batch start s3://a/b --limit 0",
        "batch start s3://a/b --ms -1",
    ],
)
def test_numbers_out_of_range_are_refused_with_what_would_be_right(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == UsageError.exit_code
    assert re.search(r"--[a-z]+: \S+ cannot be used; give a (whole )?number", capsys.readouterr().err)


@pytest.mark.parametrize(
    "command", ["invoke", "serve", "sample", "bench", "cost", "diff", "report", "deploy", "publish"]
)
@pytest.mark.parametrize("checkout", [True, False])
def test_a_bundle_that_is_not_there_is_named_with_what_builds_it(
    command: str, checkout: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make invoke MODEL=x` advised to build another model."""
    monkeypatch.setenv("SAM", "no-sam-is-run")
    (tmp_path / "x").mkdir()
    (tmp_path / "samconfig.toml").write_text("[default.deploy.parameters]\n")
    (tmp_path / "x" / "model.toml").write_text('[model]\nname = "other"\nsource = "a.keras"\n')
    if not checkout:
        monkeypatch.chdir(tmp_path)
    model = str(tmp_path / "x") if checkout else "x"
    assert main([command, model, *[model] * (command == "diff")]) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "there is no bundle of other" in said
    assert f"`{f'make bundle MODEL={model}' if checkout else 'coldforge bundle x'}`" in said


@pytest.mark.parametrize("words", ["diff dist/nowhere digits", "report dist/nowhere"])
def test_what_shows_bundles_speaks_of_bundles(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == UsageError.exit_code
    said = capsys.readouterr().err
    assert "there is no bundle in dist/nowhere" in said
    assert "model.toml" not in said


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


def test_make_help_shows_what_a_user_needs_and_developers_targets_apart() -> None:
    def listed(goal: str) -> set[str]:
        return set(re.findall(r"^  make ([a-z0-9-]+)", make(f"PYTHON={sys.executable}", goal).stdout, re.MULTILINE))

    users, developers = listed("help"), listed("help-developers")
    assert {"bundle", "invoke", "deploy", "test", "test-all", "doctor", "serve"} <= users
    assert {"lint", "lock", "fuzz", "test-unit"} <= developers
    assert not users & developers
    targets = set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert users | developers == targets


def test_make_refuses_a_language_before_it_builds_anything() -> None:
    done = make("bindings", "LANGUAGE=java", "MODEL=nowhere")
    assert done.returncode == 2
    assert f"there are no bindings for LANGUAGE=java; it is one of: {' '.join(LANGUAGES)}" in done.stderr
    assert "nowhere" not in done.stderr


def test_make_takes_one_path_with_spaces_or_several_models(tmp_path: Path) -> None:
    spec = tmp_path / "my models" / "model.toml"
    spec.parent.mkdir()
    spec.write_text("[model]\nname = 1\n")
    assert f'wasm "{spec}"' in make("--dry-run", "wasm", f"MODEL={spec}").stdout
    done = make("invoke", f"MODEL={spec}")
    assert f"{spec}:2" in done.stderr  # the file was read
    assert "no-model" in make("invoke", "MODEL=no-model no-other").stderr
