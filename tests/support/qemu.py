"""An emulated arm64 processor for the tests: QEMU and an arm64 C library, installed when they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from builder.library.machine import EMULATORS, Machine, machine_for


def arm64(cache: Path) -> Machine:
    """What runs arm64 libraries here. Skips the test, with the reason, where nothing can."""
    machine = machine_for("arm64", cache)
    if machine.missing and shutil.which("apt-get") and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        packages = EMULATORS["arm64"].packages.split()
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *command], env=environment, capture_output=True, check=False)
        machine = machine_for("arm64", cache)
    if machine.missing:
        pytest.skip(f"NO arm64 LIBRARY IS RUN: {machine.missing}")
    return machine
