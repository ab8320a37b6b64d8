"""A machine with nothing but what is named: a PATH of links, and a checkout that nobody has used yet."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

BASE = (
    "bash",
    "sh",
    "make",
    "grep",
    "awk",
    "sed",
    "cat",
    "nproc",
    "expr",
    "uname",
    "env",
    "dirname",
    "rm",
    "touch",
    "test",
)
"""What every Linux has, and make."""

CHECKOUT = (
    "Makefile",
    "pyproject.toml",
    "builder",
    "handler",
    "layers",
    "requirements",
    "examples",
    "tests/data/face.jpg",
)
"""What the first commands use."""


@dataclass(frozen=True)
class Machine:
    """``programs``: the only folder on PATH. ``checkout``: where make runs, in a folder with spaces and an umlaut."""

    programs: Path
    checkout: Path

    @classmethod
    def create(cls, folder: Path) -> Machine:
        machine = cls(folder / "bin", folder / "Jörg Müller" / "cold forge")
        machine.programs.mkdir()
        for name in BASE:
            if path := shutil.which(name):
                machine.programs.joinpath(name).symlink_to(path)
        for name in CHECKOUT:
            target = machine.checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__", "content", "node_modules")
                )
            else:
                shutil.copy2(ROOT / name, target)
        return machine

    def add(self, name: str, path: str) -> None:
        """Put a program that runs ``path`` on PATH. An interpreter finds its library by its real path."""
        program = self.programs / name
        program.write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
        program.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": str(self.programs), "HOME": os.environ["HOME"], "LANG": "C.UTF-8"} | environment
        return subprocess.run(
            ["make", *arguments], cwd=self.checkout, env=variables, capture_output=True, text=True, check=False
        )
