"""An emulated arm64 processor for the tests: QEMU and an arm64 C library, installed when they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from builder.library.machine import Machine, machine_for
from builder.targets import ARM64


def arm64(cache: Path) -> Machine:
    """What runs arm64 libraries here. Skips the test, with the reason, where nothing can."""
    machine, emulator = machine_for(ARM64, cache), ARM64.emulator
    assert emulator
    if machine.missing and shutil.which("apt-get") and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        packages = emulator.packages.split()
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *command], env=environment, capture_output=True, check=False)
        machine, emulator = machine_for(ARM64, cache), ARM64.emulator
    assert emulator
    if machine.missing:
        pytest.skip(f"NO arm64 LIBRARY IS RUN: {machine.missing}")
    return machine
