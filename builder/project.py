"""Where things are: the folders a build reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Project:
    """A checkout: ``build/`` for stages and caches, ``dist/`` for bundles, and what SAM deploys."""

    root: Path

    @classmethod
    def here(cls) -> Project:
        """The checkout this code is part of."""
        return cls(Path(__file__).resolve().parent.parent)

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def cache(self) -> Path:
        return self.build / "cache"

    @property
    def dist(self) -> Path:
        return self.root / "dist"

    @property
    def layers(self) -> Path:
        return self.root / "layers"

    @property
    def function(self) -> Path:
        """The source of the Lambda function."""
        return self.root / "handler"

    @property
    def examples(self) -> Path:
        return self.root / "examples"
