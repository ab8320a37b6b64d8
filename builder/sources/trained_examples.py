"""Models of the examples that are trained here: ``python -m builder.sources.trained_examples digits``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from builder.base.commands import setup_command
from builder.base.errors import EnvironmentSetupError
from builder.base.files import lock_target
from builder.base.progress import Progress
from builder.base.project import Project
from builder.config import ModelSpec, read_spec

SCRIPTS = ("train.py", "make_model.py")
"""Names of an example's script that writes its model; the first one that exists is used."""


def ensure_trained(spec: ModelSpec, project: Project, say: Callable[[str], None]) -> None:
    """Run the script that writes the model of ``spec``, if that is an example with one and its model is older.

    ``say`` gets a line about it. Raises EnvironmentSetupError where the script fails.
    """
    folder, model = spec.path.parent, spec.source.path
    script = next((folder / name for name in SCRIPTS if (folder / name).is_file()), None)
    if folder.parent != project.examples or script is None or model is None or _is_newer(model, script):
        return
    with lock_target(model.parent / "training", say):
        if _is_newer(model, script):  # Another command has made it meanwhile.
            return
        say(f"making the model of {spec.name}, once, with {script.relative_to(project.home)} (half a minute)")
        known = {**os.environ, "PYTHONPATH": str(project.home)}
        process = subprocess.run([sys.executable, script], env=known, capture_output=True, text=True, check=False)
    if process.returncode:
        raise EnvironmentSetupError(
            f"{script} failed; `{setup_command()}` installs what it needs:\n{process.stderr.strip()[-2000:]}"
        )


def _is_newer(model: Path, script: Path) -> bool:
    return model.exists() and model.stat().st_mtime >= script.stat().st_mtime


if __name__ == "__main__":
    project = Project.in_current_folder()
    for example in sys.argv[1:]:
        ensure_trained(read_spec(project.examples / example / "model.toml"), project, Progress().show_lines)
