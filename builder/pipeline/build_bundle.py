"""The way of a bundle: a model.toml's spec in, ``dist/<model>/`` out. Each stage is in ``builder.pipeline``.

Every stage reads the folder before it and writes its own, ``build/<model>/<stage>/``. The key that decides whether a
stage runs again is made of the content it reads, so a change travels only as far as it makes a difference. TensorFlow
is imported only by the stages that need it, when they run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from builder.base.cache import made_in
from builder.base.files import write_file
from builder.compiler.link.static_archive import ARCHIVE, TRIAL
from builder.package.bundle import Bundle, activate
from builder.package.dependencies import build_dependencies
from builder.pipeline.compile_graph import compiler
from builder.pipeline.fallbacks import VerifiedLibrary, verified_library
from builder.pipeline.import_model import import_variants
from builder.pipeline.link_library import link_static
from builder.pipeline.pack_bundle import pack
from builder.pipeline.read_tuning import stale_tuning
from builder.pipeline.resolve_options import settle
from builder.pipeline.resolve_strings import completed
from builder.pipeline.verify_library import verify_variants
from builder.pipeline.workspace import Workspace
from builder.verify.failure_report import require
from builder.verify.quantise.choice import Choice


@dataclass(frozen=True)
class Built:
    """A finished bundle, and its library with all that was found out about it on the way."""

    bundle: Bundle
    library: VerifiedLibrary


def build_bundle(ws: Workspace, recorded: Choice | None = None) -> Built:
    """Run every stage for the workspace's spec and target, or take its output from an earlier run.

    ``recorded``: what "auto" chose in an earlier build, whose times are taken instead of measuring. Raises the
    ColdforgeError of the stage that fails; the last good bundle stays in place.
    """
    ws = completed(ws)
    imported = import_variants(ws)
    compiled_for = compiler(ws, imported)
    settled = settle(ws, recorded)
    ws = ws.for_spec(settled.spec)
    library = verified_library(ws, compiled_for, settled)
    if stale := stale_tuning(ws.spec, library.lowering.geometries):
        ws.progress.say(f"  {stale}; `coldforge tune` measures again")
    with ws.progress.stage("layer", "the function's dependencies") as outcome:
        outcome.cached, folder = build_dependencies(ws.project, ws.target, ws.progress.say, ws.progress.detail)
        outcome.made_in = made_in(folder)
    with ws.progress.stage("pack", f"dist/{ws.bundle.name}"):
        bundle = pack(ws, library)
        activate(bundle, ws.project.layers, ws.target)
    write_file(ws.stage_times, json.dumps([asdict(stage) for stage in ws.progress.ended], indent=1) + "\n")
    return Built(bundle, library)


def build_archive(ws: Workspace, library: VerifiedLibrary) -> Path:
    """``libmodel.a`` of what ``library`` was linked from, verified as it was. Raises LinkError or VerifyError."""
    folder = link_static(ws, library.emitted)
    with ws.progress.stage("verify", f"{ARCHIVE} against TensorFlow's answers"):
        require(verify_variants(ws, library.compiled, folder / TRIAL, library.roundings))
    return folder / ARCHIVE
