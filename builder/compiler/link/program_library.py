"""The building of a library from a program in one step, for callers that keep no sources."""

from __future__ import annotations

from pathlib import Path

from builder.compiler.emit import Probe, emit_sources
from builder.compiler.link.shared_library import link_library
from builder.compiler.lower.program import Program
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec


def build_library(
    program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, zig: Path, *, probe: Probe | None = None
) -> Path:
    """Build ``libmodel.so`` of ``program`` in ``folder``, with its weights inside it.

    ``zig``: the compiler's cache. ``probe``: the report that the library makes of each step. Raises LinkError.
    """
    sources = emit_sources(program, spec, compiled.target, folder, probe=probe)
    return link_library(sources, [compiled.kernels_path], compiled.target, folder, zig).path
