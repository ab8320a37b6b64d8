"""What a test needs of the machine.

A test that cannot have it is skipped, and the reason names the tool. With ``REQUIRE_ALL=1``, as in ``.ci/run``, the
test fails instead. ``make tools`` installs all the tools. Skips that no tool would cure call ``pytest.skip``
themselves: this run is the sanitized one, or the kernel lacks what is tested.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test because the machine lacks something; fail it where all must run."""
    if os.environ.get("REQUIRE_ALL") == "1":
        pytest.fail(f"REQUIRE_ALL=1: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN: {reason}", allow_module_level=True)


def needs(command: str, *packages: str) -> str:
    """The path of ``command``, which Debian's ``packages`` bring."""
    path = shutil.which(command)
    if path is None:
        missing(f"there is no {command} (make tools installs {' '.join(packages or (command,))})")
    return path


def needs_module(name: str) -> Any:
    """The Python module ``name``, which requirements/test.txt brings."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing(f"{name} cannot be imported: {error}")


def gcc() -> str:
    return needs("gcc", "gcc", "libc6-dev")


def objdump() -> str:
    return needs("objdump", "binutils")


def c_compiler() -> str:
    return needs("cc", "gcc", "libc6-dev")


def cargo() -> str:
    c_compiler()  # the linker
    return needs("cargo", "cargo", "rustc")


def rust_image() -> Path:
    """A folder of crates with the crate image in it, as Debian packages them: cargo then needs no network."""
    crates = Path("/usr/share/cargo/registry")
    if not any(crates.glob("image-0.*")):
        missing("there is no crate image (make tools installs librust-image-dev)")
    return crates


def libraries(*names: str) -> None:
    """The headers of C libraries, which pkg-config finds."""
    program = needs("pkg-config")
    for name in names:
        if subprocess.run([program, "--exists", name], check=False).returncode:
            missing(f"there are no headers of {name} (make tools installs {name}-dev)")


def go() -> str:
    c_compiler()  # for cgo
    return needs("go", "golang-go")


def node() -> str:
    return needs("node", "nodejs")
