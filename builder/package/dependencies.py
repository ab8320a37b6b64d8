"""The dependencies layer, installed for Lambda's Python by the layer's own script, and the locks of packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import KEY_FILE, compute_digest, run_cached
from builder.base.errors import EnvironmentSetupError
from builder.base.files import Say, show_nothing
from builder.base.project import Project
from builder.base.targets import DEFAULT, Target

_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^\]]*\])?\s*==\s*(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")


def dependencies_folder(project: Project, target: Target = DEFAULT) -> Path:
    """Return the folder in which ``build_dependencies`` leaves the layer."""
    return project.build / f"dependencies{target.suffix}"


def build_dependencies(
    project: Project, target: Target = DEFAULT, say: Say = show_nothing, detail: Say = show_nothing
) -> tuple[bool, Path]:
    """Build the layer for ``target``; return (whether it existed already, the layer's folder).

    All projects share the downloads, so that a second one needs no network. ``say`` gets the line that this process
    waits for another, which makes it; ``detail`` gets pip's output. Raises EnvironmentSetupError with pip's message
    when the packages cannot be had.
    """
    source = project.dependencies
    folder = dependencies_folder(project, target)
    key = compute_digest(*(source / name for name in ("build.py", "elf.py", "requirements.txt")))

    def copy(fresh: Path) -> None:
        shared = project.cache / "layers" / f"{folder.name}-{key[:12]}"
        run_cached(shared, key, lambda made: _make_layer(source, target, made, detail), say)
        shutil.copytree(shared, fresh, dirs_exist_ok=True, ignore=shutil.ignore_patterns(KEY_FILE))

    return run_cached(folder, key, copy, say), folder


def _make_layer(source: Path, target: Target, folder: Path, detail: Say) -> None:
    command = [sys.executable, str(source / "build.py"), str(folder / "python"), "--target", target.name]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    detail(process.stdout + process.stderr)
    if process.returncode:
        raise EnvironmentSetupError(
            f"the dependencies layer could not be installed:\n{process.stderr.strip()[-2000:]}\n"
            "Check that the package index can be reached, then run the same command again."
        )


@dataclass(frozen=True)
class LockedPackage:
    """A pinned package; ``hashes`` are SHA-256 (hex) of the files that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> tuple[LockedPackage, ...]:
    """Return the packages of a hash-locked requirements file, by name.

    Raises EnvironmentSetupError when a line is not a pin.
    """
    packages = []
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text or text.startswith("-"):
            continue
        match = _PIN.match(text)
        if match is None:
            raise EnvironmentSetupError(f"{path.name}: {text!r} is not pinned as name==version; lock it again.")
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()
        packages.append(LockedPackage(name, match["version"], tuple(sorted(set(_HASH.findall(text))))))
    return tuple(sorted(packages, key=lambda p: p.name))
