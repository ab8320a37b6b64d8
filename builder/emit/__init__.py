"""Print a Program as the sources that ``link`` compiles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.emit.blob import weights_source, write_weights
from builder.emit.header import flat_run_source, header_source
from builder.emit.metadata import model_json
from builder.emit.program import program_source, uses_fused
from builder.lower.program import Program, walk
from builder.spec import ModelSpec

ISA = {"x86_64": ["x86-64-v3"], "arm64": ["neoverse-n1"]}
"""Instruction sets that a library for each architecture holds."""

FUSED_ISA = {**ISA, "x86_64": ["x86-64-v3", "x86-64-v4"]}
"""The same with fused kernels in it."""


@dataclass(frozen=True)
class Sources:
    """Generated files in ``folder``: program.c, weights.bin, weights.S, model.h, model.json."""

    folder: Path

    @property
    def header(self) -> Path:
        return self.folder / "model.h"

    @property
    def description(self) -> Path:
        return self.folder / "model.json"


def emit(program: Program, spec: ModelSpec, target: str, folder: Path, *, profile: bool = False) -> Sources:
    """Write the sources of ``program`` into ``folder``, byte for byte the same for the same input.

    ``profile``: of a library that also measures how long each step takes (builder/runtime/profile.h).
    """
    sources = Sources(folder)
    isa = FUSED_ISA if uses_fused(walk(program.steps)) else ISA
    description = model_json(program, spec, {target: isa[target]})
    sources.description.write_text(description + "\n")
    sources.header.write_text(header_source(program))
    (folder / "program.c").write_text(program_source(program, description, flat_run_source(program), profile=profile))
    weights = folder / "weights.bin"
    write_weights(program, weights)
    (folder / "weights.S").write_text(weights_source(weights))
    return sources
