"""The printing of a Program as the sources that ``link`` compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from builder.base.targets import Target
from builder.compiler.emit.generated_sources import GeneratedSources, Probe
from builder.compiler.emit.header import format_flat_run, format_header
from builder.compiler.emit.metadata import format_model_json
from builder.compiler.emit.print_program import (
    format_other_sources,
    format_program_source,
    is_dynamic,
    list_kernel_kinds,
    list_kernel_tables,
    make_layout,
    uses_cascades,
)
from builder.compiler.emit.write_weights import format_weights_source, write_weights, write_weights_file
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import walk_steps
from builder.config import ModelSpec, Variant
from builder.importers.graph import CallerInputs

__all__ = ["GeneratedSources", "Probe", "emit_sources"]


def emit_sources(
    program: Program,
    spec: ModelSpec,
    target: Target,
    folder: Path,
    *,
    kernels: Sequence[Path] = (),
    others: Mapping[Variant, Program] | None = None,
    probe: Probe | None = None,
    caller_inputs: Sequence[CallerInputs] = (),
) -> GeneratedSources:
    """Write the sources of ``program`` into ``folder``, byte for byte the same for the same input.

    ``kernels``: XLA's object files; without them the weights are always part of the library. ``others``: the programs
    of the same model for other batches and sizes, over the same weights. ``probe``: the kind of probe in the library,
    which measures each step (builder/runtime/probe/profile.h) or shows the memory that it reads (observe.h).
    ``caller_inputs``: the inputs that callers of each signature pass in place of tensors.
    """
    others = others or {}
    programs = (program, *others.values())
    steps = [step for p in programs for step in walk_steps(p.steps)]
    tables, outside_library = list_kernel_tables(steps), bool(kernels) and spec.weights.place != "library"
    isas = target.list_isas(fused=bool(tables & {"fused", "attention", "trees"}), integer="integer" in tables)
    signatures = _list_signatures(spec, others)
    sources = GeneratedSources(
        folder=folder,
        names=("program.c", *(f"program{variant.symbol}.c" for variant in others)),
        isa=tuple(isas),
        kernel_kinds=list_kernel_kinds(steps, one_by_one=any(p.parts and p.dense_end for p in programs)),
        attention="attention" in tables,
        trees="trees" in tables,
        several_signatures=bool(signatures),
        dynamic=any(is_dynamic(p) for p in programs),
        parts=any(p.parts for p in programs),
        cascades=uses_cascades(steps),
        audio=spec.audio is not None,
        layout=make_layout(program, kernels, others) if outside_library else None,
        probe=probe,
    )
    layout = sources.layout
    description = format_model_json(program, spec, {target.name: isas}, layout, others, caller_inputs)
    sources.description.write_text(description + "\n")
    sources.header.write_text(format_header(program, others))
    source = format_program_source(
        program,
        description,
        format_flat_run(program),
        probe=probe,
        outside=layout,
        others=others,
        signatures=signatures,
    )
    first, *further = sources.programs
    first.write_text(source)
    for path, text in zip(
        further, format_other_sources(program, others, outside=layout is not None).values(), strict=True
    ):
        path.write_text(text)
    if layout:
        write_weights_file(program, layout, sources.weights)
    else:
        with sources.weights.open("wb") as file:
            write_weights(program, file)
        (folder / "weights.S").write_text(format_weights_source(sources.weights))
    sources.save()
    return sources


def _list_signatures(spec: ModelSpec, others: Mapping[Variant, Program]) -> tuple[str, ...]:
    if not any(variant.signature for variant in others):
        return ()
    return (spec.source.signature or "", *(one.name for one in spec.signatures))
