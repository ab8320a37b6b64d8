"""The archive of `make bench-arm64`, unpacked and run: its libraries under QEMU, everything else as it stands there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.models import named
from benchmarks.pack import pack
from builder.targets import ARM64, host_target
from tests.conftest import ROOT
from tests.support import qemu
from tests.support.build import CACHE

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

NETWORK = "digits"
EMULATED = """
import sys
from dataclasses import replace
from benchmarks import engines, run
for name in ("coldforge", "coldforge_int8"):
    program = (sys.argv[1], "-m", "tests.support.emulated_worker")
    engines.KINDS[name] = replace(engines.KINDS[name], program=program)
run.main(["--prepared", "--repeats", "0", "--output", "results", *sys.argv[2:]])
"""
"""``run.sh`` but for who runs the libraries."""


def oldest_python() -> str:
    """A Python 3.9, which Amazon Linux 2023 has, if there is one; else the one that runs this."""
    candidates = [*sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9")), shutil.which("python3.9") or ""]
    for python in filter(None, candidates):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(python)
    return sys.executable


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


def check(folder: Path, shown: str) -> dict[str, Any]:
    """What was measured is there as JSON, as a page and on the screen; returns the row of the engines."""
    results = json.loads((folder / "results" / "results.json").read_text())
    network = results["networks"][NETWORK]
    assert network["failed"]["onnxruntime"] == "not in the archive"
    found: dict[str, Any] = network["latency"]["1"]["engines"]
    assert set(found) == {"coldforge", "coldforge_int8"}
    assert found["coldforge"]["difference"] < 1e-5
    assert 0 < found["coldforge_int8"]["accuracy"]["error"] < 0.1
    assert found["coldforge_int8"]["accuracy"]["same_class"] > 0.9
    for row in found.values():
        assert 0 < row["p10_ms"] <= row["median_ms"] <= row["p90_ms"]
        assert row["rounds"] == 2
    assert f"| {NETWORK}" in shown
    assert (folder / "results" / "benchmarks.md").exists()
    return results


def test_for_arm64(tmp_path: Path) -> None:
    qemu.arm64(CACHE)
    archive = pack([named(NETWORK)], ARM64, ["litert"], tmp_path / "bench.tar.gz")
    assert archive.stat().st_size < 5e6
    folder = unpacked(archive, tmp_path / "there")
    assert (folder / "peers.txt").read_text().startswith("ai-edge-litert==")
    assert (folder / "build" / "bench" / NETWORK / "litert" / "model.tflite").exists()
    command = [oldest_python(), "-c", EMULATED, sys.executable, "--rounds", "2", "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(folder, done.stdout)
    run_sh(folder, tmp_path / "bin")


def run_sh(folder: Path, path: Path) -> None:
    """run.sh itself, where there is nothing but a Python without packages: on another processor it times no library."""
    path.mkdir()
    (path / "python3").write_text(f'#!/bin/sh\nexec "{oldest_python()}" -S "$@"\n')
    (path / "python3").chmod(0o755)
    command = [folder / "run.sh", "--rounds", "2", "--threads", "1", "--native"]
    environment = {"PATH": f"{path}:/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    latency = json.loads((folder / "results" / "results.json").read_text())["networks"][NETWORK]["latency"]["1"]
    if host_target() == ARM64:
        assert latency["engines"]["coldforge"]["median_ms"] > 0
    else:
        assert "libmodel.so" in latency["excluded"]["coldforge"]
        assert "libmodel.so" in done.stdout
