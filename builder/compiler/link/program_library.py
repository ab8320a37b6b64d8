"""A program as a library, in one step: for whoever runs it once, and keeps no sources."""

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
    """``libmodel.so`` of ``program`` in ``folder``, with its weights inside; ``zig``: the compiler's cache.

    ``probe``: what the library says of each step while it runs. Raises LinkError.
    """
    sources = emit_sources(program, spec, compiled.target, folder, probe=probe)
    return link_library(sources, [compiled.kernels_path], compiled.target, folder, zig).path
