"""The function as a container image, for models that no layer can hold.

The Docker context ``build/image`` gets the content of the zip function and its layers, at the paths that it has in
Lambda. ``coldforge deploy --package image`` deploys it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from builder.base.files import replace_folder
from builder.base.project import Project

DOCKERFILE = Path(__file__).with_name("image.Dockerfile")


def fill_image_context(project: Project) -> Path:
    """Fill ``build/image`` with the active bundle, its dependencies and the function; return the folder."""
    with replace_folder(project.build / "image") as fresh:
        shutil.copytree(project.layers / "model" / "content", fresh / "opt")
        shutil.copytree(project.layers / "dependencies" / "content" / "python", fresh / "task")
        shutil.copytree(project.layers / "function" / "content", fresh / "task", dirs_exist_ok=True)
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
