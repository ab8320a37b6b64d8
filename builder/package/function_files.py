"""The function as it is deployed: the handler's modules, with bytecode for Lambda's Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from builder.base.errors import EnvironmentSetupError
from builder.base.lambda_python import LAMBDA_PYTHON, PythonInterpreter, find_python

_BUILDS_THE_MODULE = "_abi_build.py"
"""File of the handler that writes another one, and is not deployed."""


def list_function_files(source: Path) -> dict[str, Path]:
    """Return the files of the function in ``source``, coldforge's ``handler``, by their names in it."""
    paths = (*source.glob("*.py"), *source.glob("*/*.py"), *source.glob("*/*.html"))
    files = {path.relative_to(source).as_posix(): path for path in paths if path.name != _BUILDS_THE_MODULE}
    return dict(sorted(files.items()))


def add_function(source: Path, folder: Path, python: PythonInterpreter | None = None) -> None:
    """Add ``handler/`` to ``folder``, with bytecode, which Lambda could not write there.

    ``python``: the Python that writes it, where it is not an installed one. Raises EnvironmentSetupError.
    """
    for name, path in list_function_files(source).items():
        target = folder / "handler" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    interpreter = python or find_python()
    if not interpreter.matches_lambda:
        if python is None:
            missing = f"no python{LAMBDA_PYTHON} here: the function goes without bytecode and starts a little slower"
            print(missing, file=sys.stderr)
        return
    command = [str(interpreter.path), "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run([*command, "-s", str(folder), "-p", "/var/task", str(folder)], check=False)
    if done.returncode:  # Python prints its own messages.
        raise EnvironmentSetupError(f"`{' '.join(command[:4])}` failed: the function could not be put together.")
