"""An emulated arm64 processor for the tests: QEMU and an arm64 C library."""

from __future__ import annotations

from pathlib import Path

from builder.base.targets import ARM64
from builder.verify.target_runner import Machine, prepare_machine
from tests.support.needs import missing


def arm64(cache: Path) -> Machine:
    """What runs arm64 libraries here. Skips the test, with the reason, where nothing can."""
    machine, emulator = prepare_machine(ARM64, cache), ARM64.emulator
    assert emulator
    if machine.missing:
        missing(f"no arm64 library can be run: {machine.missing}")
    return machine
