"""The Python interpreters of this machine that coldforge supports."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")


def find_python(version: str) -> str | None:
    """The path of an interpreter of that version ("3.12"): on PATH, or among pyenv's; None where there is none.

    pyenv puts a command of each version on PATH that runs only where the version is selected, so each is run.
    """
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted(Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob(f"versions/{version}.*/bin"))
    for path in (folder / f"python{version}" for folder in folders):
        if path.is_file():
            ask = [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
            done = subprocess.run(ask, capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                return str(path)
    return None
