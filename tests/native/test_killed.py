"""Deliveries that are killed, interrupted or refused by the disk at every one of their file operations."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from builder.base.cache import run_cached
from builder.base.errors import ColdforgeError, CompileError, DiskError, EnvironmentSetupError
from builder.base.files import is_settled
from builder.base.sandbox import KernelFeatures, ProcessLimits, Sandbox
from builder.base.sandbox.sandbox_client import ServerSettings, describe_crash
from tests.support import faults
from tests.support.deliveries import DELIVERIES
from tests.support.faults import STOPS, tree


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faults.build(tmp_path_factory.mktemp("faults"))


@pytest.mark.full
@pytest.mark.parametrize("name", DELIVERIES)
def test_old_or_new_and_the_run_after_is_right(name: str, library: Path, tmp_path: Path) -> None:
    counts = faults.stop_everywhere(library, name, tmp_path)
    assert min(counts.values()) >= 5, counts


def fill(content: str, how: int, at: int, number: int) -> None:
    """A job: write some files, of which the operation ``at`` meets a fault, as all do that tell the result."""
    here = Path.cwd()
    ctypes.CDLL(None).fault_arm(os.fsencode(here), how, ctypes.c_long(at), number, 1)
    (here / "deep").mkdir()
    for path in (here / "graph.pb", here / "deep" / "golden.npz"):
        path.write_text(content)
        path.rename(path.with_suffix(".new"))


@pytest.mark.parametrize(
    ("way", "error"), [("killed", EnvironmentSetupError), ("full", DiskError), ("broken", DiskError)]
)
def test_a_job_in_the_sandbox_leaves_the_stage_as_it_was(
    way: str, error: type[ColdforgeError], library: Path, tmp_path: Path
) -> None:
    """Reading and compiling a model is the work of another process, which is stopped at every file operation."""
    with_faults = tmp_path / "python"
    with_faults.write_text(f'#!/bin/sh\nLD_PRELOAD="{library}" exec "{sys.executable}" "$@"\n')
    with_faults.chmod(0o755)
    limits, loads = ProcessLimits(memory=2 << 30, seconds=60), ServerSettings(python=with_faults)
    sandbox = Sandbox(limits, KernelFeatures.from_machine(), preloaded=("tests.native.test_killed",), loads=loads)

    def build(content: str, *fault: int) -> None:
        def job(folder: Path) -> None:
            sandbox.run(
                fill,
                content,
                *fault,
                folder=folder,
                failed=lambda code, said: CompileError(describe_crash(code, said, "It")),
            )

        run_cached(tmp_path / "stage", content, job)

    build("old", 0, 0, 0)
    old = tree(tmp_path / "stage")
    for at in range(1, faults.MOST):
        try:
            build("new", STOPS[way][0], at, STOPS[way][1])
        except error:
            assert tree(tmp_path / "stage") == old
            assert is_settled(tmp_path / "stage")
        else:
            break
    assert at > 6
    new = tree(tmp_path / "stage")
    assert sorted(new.values(), key=str) != sorted(old.values(), key=str)
    build("old", 0, 0, 0)
    assert tree(tmp_path / "stage") == old
