"""What runs a library of another architecture, and what a build says when nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.base.targets import ARM64, X86_64
from builder.cli.summaries import format_agreement
from builder.compiler.audit.audit_library import find_target
from builder.verify.compare_answers import verify_library
from builder.verify.target_runner import HERE, Machine, build_runner, prepare_machine
from builder.verify.verification import require_passed
from tests.support.hand_model import CASES, model_spec, write_golden
from tests.support.zig import CACHE

PROGRAM = """#!/bin/sh
case "$*" in
    *help*) echo "Available CPUs:\n  cortex-a57\n  max{more}" ;;
    *) echo "qemu-aarch64 version 9.9.9 (made up)" ;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "zig").symlink_to(CACHE)
    return tmp_path / "cache"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An x86-64 machine with an empty PATH and no arm64 C library; PATH is this folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("QEMU_LD_PREFIX", str(tmp_path / "root"))
    return folder


def emulator(folder: Path, more: str = "") -> None:
    (folder / "qemu-aarch64").write_text(PROGRAM.replace("{more}", more))
    (folder / "qemu-aarch64").chmod(0o755)


def test_its_own_architecture_needs_nothing(host: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare_machine(X86_64, cache) is HERE
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert prepare_machine(ARM64, cache) is HERE
    assert "none is emulated" in prepare_machine(X86_64, cache).missing


def test_what_is_missing_is_named_with_what_to_do(host: Path, cache: Path) -> None:
    assert "qemu-aarch64 is not on PATH; `apt-get install qemu-user" in prepare_machine(ARM64, cache).missing
    emulator(host)
    assert "no C library for arm64 in " in prepare_machine(ARM64, cache).missing


@pytest.mark.parametrize(("more", "cpu"), [("\\n  neoverse-n1", "neoverse-n1"), ("", "max,sve=off")])
def test_the_emulator_is_given_gravitons_processor(host: Path, cache: Path, more: str, cpu: str) -> None:
    emulator(host, more)
    (host.parent / "root" / "lib").mkdir(parents=True)
    machine = prepare_machine(ARM64, cache)
    assert machine.name == f"qemu-aarch64 9.9.9 as {cpu}"
    assert machine.runner[1:5] == ("-cpu", cpu, "-L", str(host.parent / "root"))
    assert find_target(Path(machine.runner[-1])) is ARM64


def test_the_runner_is_built_once(cache: Path) -> None:
    first = build_runner(ARM64, cache)
    before = first.stat()
    assert build_runner(ARM64, cache).stat() == before


def test_a_library_that_nothing_runs_passes_loudly(tmp_path: Path) -> None:
    verification = verify_library(
        tmp_path / "libmodel.so", write_golden(tmp_path, CASES), model_spec(), Machine("", missing="no QEMU")
    )
    require_passed(verification)
    assert verification.to_dict() | {"warnings": []} == {
        "library": "libmodel.so", "passed": True, "run_by": None, "cases": [], "outputs": [],
        "same_weights": [], "failures": [], "warnings": [],
    }  # fmt: skip
    assert format_agreement(verification) == "  WARNING: the library was built and audited, but NOT RUN: no QEMU"
