"""Choose what `sam build` takes and `sam deploy` uploads: the bundle of the models that are named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.pack.bundle import LAYER_MANIFEST, activate, find_bundle
from builder.pack.join import joined_name
from builder.project import Project
from builder.targets import Target


@dataclass(frozen=True)
class Staged:
    """The bundle that a layer holds: ``name`` as under dist/, and the versions of its models with + between them."""

    name: str
    version: str


def stage(names: Sequence[str], project: Project, target: Target, named: str = "") -> Staged:
    """Make the bundle of the models ``names`` the active one for ``target``.

    ``named``: what `make bundle` calls them. Raises UsageError where there is no such bundle.
    """
    content = activate(find_bundle(project.dist, joined_name(names), target, named), project.layers, target)
    staged = staged_in(content)
    assert staged is not None
    return staged


def staged_in(layer: Path) -> Staged | None:
    """What the model layer in the folder ``layer`` holds; None for another layer."""
    path = layer / LAYER_MANIFEST
    if not path.is_file():
        return None
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    models = [one["model"] for one in manifest.get("models", [manifest])]
    return Staged(joined_name([str(m["name"]) for m in models]), "+".join(str(m["version"]) for m in models))
