"""Linking: the emitted C, the runtime and XLA's kernels become a library, or an archive for static linking."""

from __future__ import annotations

from pathlib import Path

from builder.base.cache import compute_digest
from builder.compiler.link.shared_library import SharedLibrary, link_library
from builder.compiler.link.static_archive import ARCHIVE, link_archive
from builder.compiler.link.toolchain import zig_version
from builder.pipeline.lower_program import EmittedSources
from builder.pipeline.workspace import Workspace


def link_shared(ws: Workspace, emitted: EmittedSources) -> Path:
    """Link ``libmodel.so`` of an attempt, or take an earlier run's. Raises LinkError with the linker's message."""
    kernels, target = emitted.compiled.kernels, ws.target
    folder = ws.build_stage(
        f"link{emitted.attempt.suffix}",
        f"libmodel.so for {target.name}",
        compute_digest(emitted.folder, *kernels, target.name, zig_version()),
        lambda folder: link_library(emitted.sources, kernels, target, folder, ws.zig),
        target.suffix,
    )
    return SharedLibrary(folder, target).path


def link_static(ws: Workspace, emitted: EmittedSources) -> Path:
    """Return the folder of ``libmodel.a`` and of a library made of it alone, for verifying. Raises LinkError."""
    kernels, target = emitted.compiled.kernels, ws.target
    return ws.build_stage(
        "archive",
        f"{ARCHIVE} for {target.name}",
        compute_digest(emitted.folder, *kernels, target.name, zig_version()),
        lambda folder: link_archive(emitted.sources, kernels, target, folder, ws.zig),
        target.suffix,
    )
