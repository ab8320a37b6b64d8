"""A Python of the version that Lambda runs, where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from builder.base.errors import EnvironmentSetupError

LAMBDA_PYTHON = "3.13"


@dataclass(frozen=True)
class PythonInterpreter:
    """A Python outside any virtual environment; ``version`` as in "3.13"."""

    path: Path
    version: str

    @property
    def matches_lambda(self) -> bool:
        """True for the version that Lambda runs."""
        return self.version == LAMBDA_PYTHON


def find_python(python: Path | None = None) -> PythonInterpreter:
    """Return ``python``, or an installed Python of Lambda's version, or else the one that runs this process.

    Raises EnvironmentSetupError when ``python`` does not run.
    """
    if python is not None:
        interpreter = _probe_python(python)
        if interpreter is None:
            raise EnvironmentSetupError(f"{python} does not run; name a Python 3.11, 3.12 or 3.13.")
        return interpreter
    for path in _list_candidates():
        interpreter = _probe_python(path)
        if interpreter is not None and interpreter.matches_lambda:
            return interpreter
    running = _probe_python(Path(sys.executable))
    assert running is not None
    return running


def _list_candidates() -> list[Path]:
    name = f"python{LAMBDA_PYTHON}"
    homes = (
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python")),
    )
    on_path = shutil.which(name)
    paths = [Path(on_path)] if on_path else []
    for home in homes:
        paths += sorted(home.glob(f"*{LAMBDA_PYTHON}*/bin/{name}"), reverse=True)
    return paths


def _probe_python(path: Path) -> PythonInterpreter | None:
    """Return the base interpreter: the function must not see a virtual environment's packages."""
    code = "import os, sys; print(os.path.realpath(sys._base_executable)); print('%d.%d' % sys.version_info[:2])"
    try:
        process = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    lines = process.stdout.splitlines()
    # pyenv puts scripts on PATH for versions that are not chosen; they fail.
    return PythonInterpreter(Path(lines[0]), lines[1]) if process.returncode == 0 and len(lines) == 2 else None
