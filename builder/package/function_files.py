"""The function as ``sam build`` makes it for a zip: the handler's modules, with bytecode for Lambda's Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from builder.base.errors import EnvironmentSetupError


def add_function(source: Path, folder: Path) -> None:
    """Add ``handler/`` to ``folder``, made from ``source`` by its own makefile; Lambda could not write bytecode.

    Raises EnvironmentSetupError.
    """
    command = ["make", "--silent", "-C", str(source), "build-Function", f"ARTIFACTS_DIR={folder.resolve()}"]
    if sys.version_info[:2] == (3, 13):
        command.append(f"PYTHON313={sys.executable}")
    if subprocess.run(command, check=False).returncode:  # make prints its own messages
        raise EnvironmentSetupError(f"`{' '.join(command[:5])}` failed: the function could not be put together.")
