"""Compilers for the tests of other languages: Debian's, installed when they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def need(command: str, *packages: str) -> str:
    """The path of ``command``, which Debian's ``packages`` bring. Skips the test where it can't be had."""
    if not shutil.which(command) and shutil.which("apt-get") and os.geteuid() == 0:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *arguments], env=environment, capture_output=True, check=False)
    path = shutil.which(command)
    if path is None:
        pytest.skip(f"NOTHING IS BUILT OR RUN: there is no {command} (Debian: {' '.join(packages)})")
    return path


def c_compiler() -> str:
    return need("cc", "gcc", "libc6-dev")


def cargo() -> str:
    c_compiler()  # the linker
    return need("cargo", "cargo", "rustc")


def go() -> str:
    c_compiler()  # for cgo
    return need("go", "golang-go")
