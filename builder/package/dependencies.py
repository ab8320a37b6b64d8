"""The dependencies layer: the handler's imports, installed for Lambda's Python by the layer's own Makefile."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from builder.base.cache import KEY_FILE, content_digest, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.base.files import Say, no_progress
from builder.base.project import Project
from builder.base.targets import DEFAULT, Target


def dependencies_folder(project: Project, target: Target = DEFAULT) -> Path:
    """Return the folder in which ``build_dependencies`` leaves the layer."""
    return project.build / f"dependencies{target.suffix}"


def build_dependencies(
    project: Project, target: Target = DEFAULT, say: Say = no_progress, detail: Say = no_progress
) -> tuple[bool, Path]:
    """Build the layer for ``target`` as ``sam build`` does; return (whether it existed already, the layer's folder).

    All projects share the downloads, so that a second one needs no network. ``say`` gets the line that this process
    waits for another, which makes it; ``detail`` gets pip's output. Raises EnvironmentSetupError with pip's message
    when the packages cannot be had.
    """
    source = project.dependencies
    folder = dependencies_folder(project, target)
    key = content_digest(source)["dirHash"]  # The digest leaves out bytecode, which the first run writes there.

    def copy(fresh: Path) -> None:
        shared = project.cache / "layers" / f"{folder.name}-{key[:12]}"
        run_cached(shared, key, lambda made: _make_layer(source, target, made, detail), say)
        shutil.copytree(shared, fresh, dirs_exist_ok=True, ignore=shutil.ignore_patterns(KEY_FILE))

    return run_cached(folder, key, copy, say), folder


def _make_layer(source: Path, target: Target, folder: Path, detail: Say) -> None:
    command = ["make", "--silent", "-C", str(source), "build-DependenciesLayer"]
    variables = [f"ARTIFACTS_DIR={folder.resolve()}", f"PYTHON={sys.executable}", f"TARGET={target.name}"]
    process = subprocess.run([*command, *variables], capture_output=True, text=True, check=False)
    detail(process.stdout + process.stderr)
    if process.returncode:
        raise EnvironmentSetupError(
            f"the dependencies layer could not be installed:\n{process.stderr.strip()[-2000:]}\n"
            "Check that the package index can be reached, then run the same command again."
        )
