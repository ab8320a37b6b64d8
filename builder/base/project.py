"""Folders: the one in which a user works, coldforge's own files, and the cache that all projects share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
"""The folder of coldforge's own files: the checkout of this code, or the folder that its wheel installs."""
RUNTIME = HOME / "builder" / "runtime"
"""The C sources that are compiled into every library."""


@dataclass(frozen=True)
class Project:
    """A folder with ``build/`` for stages, ``dist/`` for bundles, and the layer that SAM deploys.

    ``root`` is that folder. ``home`` has coldforge's own files: the function, the layers' sources and the examples. In
    a checkout, both are the same.
    """

    root: Path
    home: Path = HOME

    @classmethod
    def in_current_folder(cls) -> Project:
        """Return the project in the current folder."""
        return cls(Path.cwd())

    @property
    def is_checkout(self) -> bool:
        """True if the user works in coldforge's own checkout."""
        return self.root == self.home

    @property
    def build(self) -> Path:
        """The folder of the stages' folders."""
        return self.root / "build"

    @property
    def cache(self) -> Path:
        """The cache that all projects share."""
        return cache_folder()

    @property
    def dist(self) -> Path:
        """The folder of the bundles."""
        return self.root / "dist"

    @property
    def layers(self) -> Path:
        """The folder of the model layer that SAM deploys."""
        return self.root / "layers"

    @property
    def dependencies(self) -> Path:
        """The source of the dependencies layer."""
        return self.home / "layers" / "dependencies"

    @property
    def function(self) -> Path:
        """The source of the Lambda function."""
        return self.home / "handler"

    @property
    def examples(self) -> Path:
        """The folder of the examples."""
        return self.home / "examples"

    @property
    def lock(self) -> Path:
        """The pinned packages of a build."""
        return self.home / "requirements" / "build.txt"


def cache_folder() -> Path:
    """Return the folder that all projects of a user share, for downloads and compilers' caches.

    ``$XDG_CACHE_HOME/coldforge``, or ``~/.cache/coldforge`` if that variable is not an absolute path
    (https://specifications.freedesktop.org/basedir-spec/latest/).
    """
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "coldforge"
