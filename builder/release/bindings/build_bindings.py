"""Bindings of a bundled model: find the parts, make libmodel.a where it is wanted, and write the package."""

from __future__ import annotations

from pathlib import Path

from builder.base.errors import UsageError
from builder.package.bundle import find_bundle
from builder.pipeline.workspace import Workspace
from builder.release.bindings import STATIC, BindingSources, generate_binding


def build_bindings(
    ws: Workspace,
    language: str,
    *,
    static: bool = False,
    out: Path | None = None,
    named: str = "",
) -> Path:
    """Write the package and return its folder, ``out`` or ``dist/bindings/<bundle>/<language>``.

    ``static``: whether it includes libmodel.a, for which a missing bundle is built. ``named``: the name that a person
    gives the model. Raises UsageError where there is no bundle, and as ``generate`` and ``build_archive`` do.
    """
    archive = None
    if static:
        from builder.pipeline import build_bundle  # This import needs a build's packages.

        if language not in STATIC:
            raise UsageError(f"--static is for {', '.join(STATIC)}: {language} loads the model at run time.")
        archive = build_bundle.build_archive(ws, build_bundle.build_bundle(ws).library)
    bundle = find_bundle(ws.project.dist, ws.spec.name, ws.target, named)
    wasm = ws.project.dist / ws.spec.name / "wasm"
    modules = wasm if (wasm / "manifest.json").is_file() else None
    folder = out or ws.project.dist / "bindings" / bundle.folder.name / language
    generate_binding(
        language,
        BindingSources(bundle.description, bundle.header, bundle.library, bundle.notice, archive, modules),
        folder,
    )
    return folder
