"""Build of a bundle: from a model.toml's spec to ``dist/<model>/``. Each stage is in ``builder.pipeline``.

Every stage reads the folder before it and writes its own, ``build/<model>/<stage>/``. The key that decides whether a
stage runs again is a digest of the content it reads, so a change reruns only the stages that it affects. TensorFlow is
imported only by the stages that need it, when they run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from builder.base.cache import read_build_seconds
from builder.base.files import write_file
from builder.compiler.link.static_archive import ARCHIVE, TRIAL
from builder.package.bundle import Bundle, activate_layer
from builder.package.dependencies import build_dependencies
from builder.pipeline.compile_graph import make_compiler
from builder.pipeline.fallbacks import VerifiedLibrary, build_verified_library, link_static
from builder.pipeline.import_model import import_variants
from builder.pipeline.pack_bundle import write_bundle
from builder.pipeline.read_tuning import explain_stale_tuning
from builder.pipeline.resolve_options import resolve_spec
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.verify_library import verify_variants
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.precision import PrecisionChoice
from builder.verify.verification import require_passed


@dataclass(frozen=True)
class BuildResult:
    """A finished bundle, and its library with the results of all stages."""

    bundle: Bundle
    library: VerifiedLibrary


def build_bundle(ws: Workspace, recorded: PrecisionChoice | None = None) -> BuildResult:
    """Run every stage for the workspace's spec and target, or take its output from an earlier run.

    ``recorded``: the choice that "auto" made in an earlier build, whose times replace a measurement. Raises the
    ColdforgeError of the stage that fails; the last good bundle stays in place.
    """
    ws = complete_workspace(ws)
    imported = import_variants(ws)
    compiled_for = make_compiler(ws, imported)
    settled = resolve_spec(ws, recorded)
    ws = ws.for_spec(settled.spec)
    library = build_verified_library(ws, compiled_for, settled)
    if stale := explain_stale_tuning(ws.spec, library.lowering.geometries):
        ws.progress.show_lines(f"  {stale}; `coldforge tune` measures again")
    with ws.progress.show_stage("layer", "the function's dependencies") as outcome:
        outcome.cached, folder = build_dependencies(
            ws.project, ws.target, ws.progress.show_lines, ws.progress.show_detail
        )
        outcome.made_in = read_build_seconds(folder)
    with ws.progress.show_stage("pack", f"dist/{ws.bundle.name}"):
        bundle = write_bundle(ws, library)
        activate_layer(bundle, ws.project.layers, ws.target)
    write_file(ws.stage_times, json.dumps([asdict(stage) for stage in ws.progress.ended], indent=1) + "\n")
    return BuildResult(bundle, library)


def build_archive(ws: Workspace, library: VerifiedLibrary) -> Path:
    """Link ``libmodel.a`` from the sources of ``library``, and verify it likewise. Raises LinkError or VerifyError."""
    folder = link_static(ws, library.emitted)
    with ws.progress.show_stage("verify", f"{ARCHIVE} against the model's own answers"):
        require_passed(verify_variants(ws, library.compiled, folder / TRIAL, library.roundings))
    return folder / ARCHIVE
