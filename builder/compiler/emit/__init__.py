"""Print a Program as the sources that ``link`` compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from builder.base.targets import Target
from builder.compiler.emit.generated_sources import GeneratedSources, Probe
from builder.compiler.emit.header import flat_run_source, header_source
from builder.compiler.emit.metadata import model_json
from builder.compiler.emit.outside_weights import write_outside, write_weights
from builder.compiler.emit.print_program import (
    is_dynamic,
    kernel_kinds,
    kernel_tables,
    layout_of,
    other_sources,
    program_source,
    runs_in_parts,
    uses_cascades,
)
from builder.compiler.emit.weights_blob import weights_source
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import walk
from builder.config import ModelSpec, Variant
from builder.importers.graph import Given

__all__ = ["GeneratedSources", "Probe", "emit"]


def emit(
    program: Program,
    spec: ModelSpec,
    target: Target,
    folder: Path,
    *,
    kernels: Sequence[Path] = (),
    others: Mapping[Variant, Program] | None = None,
    probe: Probe | None = None,
    given: Sequence[Given] = (),
) -> GeneratedSources:
    """Write the sources of ``program`` into ``folder``, byte for byte the same for the same input.

    ``kernels``: XLA's object files, without which the weights are always part of the library. ``others``: the same
    model for other batches and sizes, over the same weights. ``probe``: of a library that also measures
    how long each step takes (builder/runtime/probe/profile.h), or shows what each one finds in memory (observe.h).
    ``given``: what callers of each signature give in the place of tensors.
    """
    others = others or {}
    programs = (program, *others.values())
    steps = [step for p in programs for step in walk(p.steps)]
    tables, outside_library = kernel_tables(steps), bool(kernels) and spec.weights.place != "library"
    isas = target.isas(fused=bool(tables & {"fused", "attention"}), integer="integer" in tables)
    signatures = _signatures(spec, others)
    sources = GeneratedSources(
        folder=folder,
        names=("program.c", *(f"program{variant.symbol}.c" for variant in others)),
        isa=tuple(isas),
        kernel_kinds=kernel_kinds(steps, one_by_one=any(p.parts and p.dense_end for p in programs)),
        attention="attention" in tables,
        several_signatures=bool(signatures),
        dynamic=any(is_dynamic(p) for p in programs),
        parts=runs_in_parts(programs),
        cascades=uses_cascades(steps),
        audio=spec.audio is not None,
        layout=layout_of(program, kernels, others) if outside_library else None,
        probe=probe,
    )
    layout = sources.layout
    description = model_json(program, spec, {target.name: isas}, layout, others, given)
    sources.description.write_text(description + "\n")
    sources.header.write_text(header_source(program, others))
    source = program_source(
        program,
        description,
        flat_run_source(program),
        probe=probe,
        outside=layout,
        others=others,
        signatures=signatures,
    )
    first, *further = sources.programs
    first.write_text(source)
    for path, text in zip(further, other_sources(program, others, outside=layout is not None).values(), strict=True):
        path.write_text(text)
    if layout:
        write_outside(program, layout, sources.weights)
    else:
        with sources.weights.open("wb") as file:
            write_weights(program, file)
        (folder / "weights.S").write_text(weights_source(sources.weights))
    sources.save()
    return sources


def _signatures(spec: ModelSpec, others: Mapping[Variant, Program]) -> tuple[str, ...]:
    if not any(variant.signature for variant in others):
        return ()
    return (spec.source.signature or "", *(one.name for one in spec.signatures))
