"""The function as a container image, for models that no layer can hold.

The Docker context ``build/image`` gets the content of the zip function and its layers, at the paths that it has in
Lambda. ``coldforge deploy --package image`` deploys it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from builder.base.commands import bundle_command
from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.files import replace_folder
from builder.base.project import Project
from builder.base.targets import DEFAULT, Target
from builder.package.dependencies import build_dependencies

DOCKERFILE = Path(__file__).with_name("image.Dockerfile")


def add_function(source: Path, folder: Path) -> None:
    """Add ``handler/`` to ``folder``, made from ``source`` by its own makefile; Lambda could not write bytecode.

    Raises EnvironmentSetupError.
    """
    command = ["make", "--silent", "-C", str(source), "build-Function", f"ARTIFACTS_DIR={folder.resolve()}"]
    if sys.version_info[:2] == (3, 13):
        command.append(f"PYTHON313={sys.executable}")
    if subprocess.run(command, check=False).returncode:  # make prints its own messages
        raise EnvironmentSetupError(f"`{' '.join(command[:5])}` failed: the function could not be put together.")


def fill_image_context(project: Project, target: Target = DEFAULT) -> Path:
    """Fill ``build/image`` with ``target``'s active bundle, its dependencies and the handler; return the folder."""
    content = project.layers / "model" / f"content{target.suffix}"
    if not content.is_dir():
        raise UsageError(
            f"there is no bundle for {target.name} to put into an image: run `{bundle_command(target=target)}` first."
        )
    _, dependencies = build_dependencies(project, target)
    with replace_folder(project.build / "image") as fresh:
        shutil.copytree(content, fresh / "opt", dirs_exist_ok=True)
        shutil.copytree(dependencies / "python", fresh / "task")
        add_function(project.function, fresh / "task")
        (fresh / "Dockerfile").write_text(make_dockerfile(), encoding="utf-8")
        for path in fresh.rglob("*"):  # Lambda's user, who is not the owner, reads them.
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    return project.build / "image"


def make_dockerfile(environment: Mapping[str, str] = os.environ) -> str:
    """Return the image's Dockerfile, on the base that COLDFORGE_LAMBDA_IMAGE names, or on its own."""
    text = DOCKERFILE.read_text(encoding="utf-8")
    if base := environment.get("COLDFORGE_LAMBDA_IMAGE", "").strip():
        text = re.sub(r"^ARG BASE_IMAGE=.*$", lambda _: f"ARG BASE_IMAGE={base}", text, count=1, flags=re.MULTILINE)
    return text
