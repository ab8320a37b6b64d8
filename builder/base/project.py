"""Where things are: the folder a user works in, coldforge's own files, and the cache that all projects share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
"""coldforge's own files: the checkout this code is part of, or the folder that its wheel installs."""
RUNTIME = HOME / "builder" / "runtime"
"""The C sources that are compiled into every library."""


@dataclass(frozen=True)
class Project:
    """A folder with ``build/`` for stages, ``dist/`` for bundles, and the layer that SAM deploys.

    ``root`` is that folder. ``home`` has what coldforge itself brings: the function, the layers' sources and the
    examples. In a checkout, the two are one.
    """

    root: Path
    home: Path = HOME

    @classmethod
    def in_current_folder(cls) -> Project:
        """The project in the current folder."""
        return cls(Path.cwd())

    @property
    def is_checkout(self) -> bool:
        """Whether the user works in coldforge's own checkout."""
        return self.root == self.home

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def cache(self) -> Path:
        return cache_folder()

    @property
    def dist(self) -> Path:
        return self.root / "dist"

    @property
    def layers(self) -> Path:
        """Where the model layer is that SAM deploys."""
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
        return self.home / "examples"

    @property
    def lock(self) -> Path:
        """The pinned packages of a build."""
        return self.home / "requirements" / "build.txt"


def cache_folder() -> Path:
    """What all projects of a user share: downloads and compilers' caches.

    ``$XDG_CACHE_HOME/coldforge``, or ``~/.cache/coldforge`` where that variable is not an absolute path
    (https://specifications.freedesktop.org/basedir-spec/latest/).
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "coldforge"
