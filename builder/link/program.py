"""A program as a library, in one step: for whoever runs it once, and keeps no sources."""

from __future__ import annotations

from pathlib import Path

from builder.emit import Probe, emit
from builder.link.library import link_library
from builder.lower.program import Program
from builder.spec import ModelSpec
from builder.xla.tfcompile import CompiledGraph


def build_library(
    program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, zig: Path, *, probe: Probe | None = None
) -> Path:
    """``libmodel.so`` of ``program`` in ``folder``, with its weights inside; ``zig``: the compiler's cache.

    ``probe``: what the library says of each step while it runs. Raises LinkError.
    """
    sources = emit(program, spec, compiled.target, folder, probe=probe)
    return link_library(sources, [compiled.kernels_path], compiled.target, folder, zig).path
