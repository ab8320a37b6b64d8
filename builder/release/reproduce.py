"""A second build of a bundle from the inputs that its statement names, in a fresh folder, and its comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from builder.base.errors import BundleError, UsageError
from builder.base.files import scratch_folder
from builder.base.progress import Progress
from builder.base.project import Project
from builder.base.targets import target_named
from builder.config import ModelSpec, read_spec
from builder.package.bundle import Bundle
from builder.package.join_bundles import combine_bundles
from builder.package.layer import EPOCH
from builder.package.provenance import JOIN_TYPE, STATEMENT
from builder.pipeline.build_bundle import build_bundle
from builder.pipeline.workspace import Workspace
from builder.release.bundle_check import check_bundle
from builder.release.compare_bundles import BundleComparison, compare_bundle_files
from builder.release.statement import parse_statement, read_plain, recorded_choice


def reproduce_bundle(
    folder: Path, project: Project, progress: Progress, spec: ModelSpec | None = None
) -> BundleComparison:
    """Build the bundle in ``folder`` again and compare. ``spec``: the spec of its model.toml, where that has moved.

    The stages' results are not reused. The caches of downloads and of the compiler are, and so are the times that
    "auto" decided by, as no second measurement gives the same. Raises BundleError if the bundle disagrees with its
    statement, UsageError if model.toml cannot be found, and the errors of a build.
    """
    definition = check_bundle(folder).statement["predicate"]["buildDefinition"]
    if spec is not None and definition["buildType"] == JOIN_TYPE:
        raise UsageError("--model names one model.toml, and this bundle is of several.")
    with scratch_folder(project.build / "reproduced") as root:
        fresh = replace(project, root=root)

        def build(recorded: Path, chosen: Mapping[str, Any]) -> Bundle:
            model = spec or read_spec(_find_model_toml(chosen["model"], project))
            ws = Workspace(replace(model, packaging=chosen["package"]), fresh, target_named(chosen["target"]), progress)
            return build_bundle(ws, recorded_choice(recorded)).bundle

        with mock.patch.dict(os.environ):
            os.environ.pop(EPOCH, None)
            if EPOCH in definition["internalParameters"]:
                os.environ[EPOCH] = str(definition["internalParameters"][EPOCH])
            rebuilt = _rebuild_bundle(folder, definition, build, fresh.dist)
        return compare_bundle_files(folder, rebuilt.folder)


def _rebuild_bundle(
    folder: Path, definition: Mapping[str, Any], build: Callable[[Path, Mapping[str, Any]], Bundle], dist: Path
) -> Bundle:
    """Build the bundle that the recorded parameters give today.

    ``build`` makes the bundle of one model, from the folder with its manifest and its recorded parameters.
    """
    parameters = definition["externalParameters"]
    if definition["buildType"] != JOIN_TYPE:
        return build(folder, parameters)
    bundles = []
    for name in parameters["models"]:
        definition_of_model = parse_statement(read_plain(folder / name, STATEMENT))["predicate"]["buildDefinition"]
        if definition_of_model["buildType"] == JOIN_TYPE:
            raise BundleError(f"{name} is itself a bundle of several models, which coldforge does not make.")
        bundles.append(build(folder / name, definition_of_model["externalParameters"]))
    return combine_bundles(bundles, dist, suffix=target_named(parameters["target"]).suffix)


def _find_model_toml(recorded: str, project: Project) -> Path:
    """Return the model.toml that a statement names by its path in the checkout, or by its name alone."""
    path = project.root / recorded
    if not path.is_file() or not path.resolve().is_relative_to(project.root.resolve()):
        raise UsageError(
            f"the bundle was built from {recorded}, which is not in this checkout: say where it is with --model."
        )
    return path
