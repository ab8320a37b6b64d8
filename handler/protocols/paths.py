"""Paths of models, common to the Open Inference Protocol and TensorFlow Serving: ``models/NAME[/versions/VERSION]``."""

from __future__ import annotations

from dataclasses import dataclass

from ..description import Description
from ..errors import UnknownModelError
from ..server import Server


@dataclass(frozen=True)
class ModelPath:
    """A model's name and version in a path, and ``rest``, the segments after them."""

    name: str
    version: str | None
    rest: tuple[str, ...]

    def find_description(self, server: Server) -> Description:
        """Return the description of the model that the path names. Raises UnknownModelError."""
        description = server.find_description(self.name)
        if self.version not in (None, description.version):
            raise UnknownModelError(f"{description.name} has only the version {description.version}")
        return description


def parse_model_path(segments: list[str]) -> ModelPath | None:
    """Parse the ``segments`` after the protocol's own. Returns None for a path of no model."""
    match segments:
        case ["models", name, "versions", version, *rest] if name and version:
            return ModelPath(name, version, tuple(rest))
        case ["models", name, *rest] if name:
            return ModelPath(name, None, tuple(rest))
    return None
