"""Choice of the bundle that `sam deploy` uploads: the function and its layers are put below layers/."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.base.files import replace_folder
from builder.base.project import Project
from builder.base.records import parse_json
from builder.base.targets import Target
from builder.package.bundle import LAYER_MANIFEST, activate_layer
from builder.package.dependencies import build_dependencies
from builder.package.function_files import add_function
from builder.package.join_bundles import join_names, read_identity
from builder.release.bundle_check import find_checked
from builder.release.statement import require_form


@dataclass(frozen=True)
class ActiveBundle:
    """The bundle that a layer holds: ``name`` as under dist/, and the versions of its models with + between them."""

    name: str
    version: str


def activate_models(names: Sequence[str], project: Project, target: Target, named: str = "") -> ActiveBundle:
    """Make the bundle of the models ``names`` the active one for ``target``.

    ``named``: the bundle's name for `make bundle`. Raises UsageError where there is no such bundle, BundleError for one
    that disagrees with its statement, and EnvironmentSetupError where the other layers cannot be made.
    """
    bundle = find_checked(project.dist, join_names(names), target, named)
    content = activate_layer(bundle, project.layers)  # The template names one folder, whatever the target is.
    _activate_other_layers(project, target)
    staged = read_active_bundle(content)
    assert staged is not None
    return staged


def _activate_other_layers(project: Project, target: Target) -> None:
    _, dependencies = build_dependencies(project, target)
    with replace_folder(project.layers / "dependencies" / "content") as fresh:
        shutil.copytree(dependencies / "python", fresh / "python")
    with replace_folder(project.layers / "function" / "content") as fresh:
        add_function(project.function, fresh)


def read_active_bundle(layer: Path) -> ActiveBundle | None:
    """Return the bundle that the model layer in the folder ``layer`` holds; None for others. Raises BundleError."""
    path = layer / LAYER_MANIFEST
    if not path.is_file():
        return None
    with require_form(LAYER_MANIFEST, "manifest"):
        return ActiveBundle(*read_identity(parse_json(path.read_text(encoding="utf-8"))))
