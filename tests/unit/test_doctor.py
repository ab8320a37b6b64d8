"""What this machine has and lacks: each check on made-up machines, and all of them on this one."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from builder.base.sandbox.confinement import KernelFeatures
from builder.cli import main
from builder.cli.doctor import (
    Diagnosis,
    Finding,
    check_aws,
    check_disk,
    check_docker,
    check_memory,
    check_packages,
    check_processor,
    check_python,
    check_sandbox,
    format_diagnosis,
)
from builder.pipeline.docker.docker_client import BuilderImage
from tests.conftest import ROOT
from tests.support.results import printed


def test_the_python() -> None:
    assert [check_python((3, minor), True).there for minor in (10, 11, 13, 14)] == [False, True, True, False]
    assert check_python((3, 10), True).remedy == "make PYTHON=python3.13 setup"
    assert not check_python((3, 12), False).there
    assert "python3.12-venv" in check_python((3, 12), False).remedy


def test_the_packages() -> None:
    def one_missing(name: str) -> str:
        if name == "ziglang":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    assert check_packages(lambda name: "1.0").found == "tensorflow-cpu 1.0, keras 1.0, ziglang 1.0"
    assert check_packages(one_missing) == Finding(
        "packages", False, "no ziglang", "every command outside Docker", "make setup"
    )


@pytest.mark.parametrize(
    ("fails", "there"),
    [
        ("", [True, True, True]),
        ("build", [True, False, False]),
        ("manifest", [True, True, False]),
        ("version", [False] * 2),
    ],
)
def test_what_docker_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, there: list[bool]) -> None:
    """A client that has no images, and fails to do one thing more."""
    program = tmp_path / "docker"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in image|{fails or "image"}) echo no $1 >&2; echo more >&2; exit 1;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("DOCKER", str(program))
    findings = list(check_docker(BuilderImage.from_environment(ROOT / "requirements" / "build.txt", {})))
    assert [finding.there for finding in findings] == there
    assert [bool(finding.remedy) for finding in findings].count(True) == bool(fails)
    assert "\n" not in "".join(finding.found for finding in findings)


def test_the_sandbox() -> None:
    assert check_sandbox(KernelFeatures(3, True)).there
    assert [check_sandbox(kernel).there for kernel in (KernelFeatures(2, True), KernelFeatures(3, False))] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "there", "found"),
    [
        ("MemTotal: 9 kB\nMemAvailable:    8000000 kB\n", True, "8.2 GB available"),
        ("MemAvailable:    1000000 kB\n", False, "1.0 GB available"),
        ("nothing of it", True, "not known here"),
        ("MemAvailable: much", True, "not known here"),
    ],
)
def test_the_memory(tmp_path: Path, text: str, there: bool, found: str) -> None:
    (tmp_path / "meminfo").write_text(text)
    assert (check_memory(tmp_path / "meminfo").there, check_memory(tmp_path / "meminfo").found) == (there, found)
    assert check_memory(tmp_path / "none").there


def test_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10**9}))
    assert not check_disk(tmp_path).there
    assert check_disk(tmp_path).found == f"1.0 GB free in {tmp_path}"


@pytest.mark.parametrize(
    ("flags", "there", "has"),
    [("fpu avx2 fma", True, "avx2, fma"), ("fpu avx2", False, "avx2"), ("fpu", False, "none of its kernels")],
)
def test_the_processor(tmp_path: Path, flags: str, there: bool, has: str) -> None:
    (tmp_path / "cpuinfo").write_text(f"model name\t: one\nflags\t\t: {flags}\n")
    found = check_processor(tmp_path / "cpuinfo")
    assert found.there is there
    assert found.found.endswith(f"with {has}")
    assert check_processor(tmp_path / "none").there  # it has no list of flags, as Graviton has none


@pytest.mark.parametrize(
    ("environment", "config", "there"),
    [
        ({}, "", False),
        ({"AWS_ACCESS_KEY_ID": "AKIA-SECRET", "AWS_REGION": "eu-west-1"}, "", True),
        ({"AWS_ACCESS_KEY_ID": "AKIA-SECRET"}, "", False),
        ({"AWS_REGION": "eu-west-1"}, "", False),
        ({}, "[default]\nregion = eu-west-1\n", True),
        ({"AWS_PROFILE": "team"}, "[default]\nregion = eu-west-1\n", False),
        ({"AWS_PROFILE": "team"}, "[profile team]\nregion = eu-west-1\n", True),
    ],
)
def test_credentials_are_looked_for_and_never_shown(
    tmp_path: Path, environment: dict[str, str], config: str, there: bool
) -> None:
    (tmp_path / "config").write_text(config)
    found = check_aws(environment, tmp_path)
    assert found.there is there
    assert "SECRET" not in str(found)


@pytest.mark.parametrize(
    ("missing", "can_build"),
    [
        (set(), True),
        ({"Docker"}, True),
        ({"Python"}, True),
        ({"Python", "Docker"}, False),
        ({"Python", "builder image"}, False),
        ({"make"}, False),
    ],
)
def test_whether_a_model_can_be_built(missing: set[str], can_build: bool) -> None:
    names = ("Python", "packages", "make", "Docker", "builder image")
    diagnosis = Diagnosis(
        tuple(Finding(n, n not in missing, "x", "y", "get it" if n in missing else "") for n in names)
    )
    assert diagnosis.can_build is can_build
    text = format_diagnosis(diagnosis)
    assert text.count("get it") == len(missing)
    assert ("does not work here yet" in text) is not can_build


def test_the_command_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = printed("doctor", capsys.readouterr().out)
    assert found["can_build"] is True
    there = {finding["name"]: finding["there"] for finding in found["findings"]}
    assert (there["Python"], there["packages"]) == (True, True)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("make bundle works here.\n")


def test_it_runs_where_nothing_is_installed() -> None:
    """``-S``: without site-packages."""
    command = [sys.executable, "-S", "-m", "builder.cli", "doctor"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "packages: make setup" in done.stdout
