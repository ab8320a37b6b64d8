"""Print a Program as the sources that ``link`` compiles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.emit.blob import weights_source
from builder.emit.header import flat_run_source, header_source
from builder.emit.metadata import model_json
from builder.emit.outside import write_outside, write_weights
from builder.emit.program import Probe, layout_of, other_source, program_source, uses_fused, uses_integer
from builder.library.outside import FILE, Layout
from builder.lower.program import Program, walk
from builder.spec import ModelSpec, Variant
from builder.targets import Target


@dataclass(frozen=True)
class Sources:
    """Generated files in ``folder``: program.c, model.h, model.json; weights.bin and weights.S, or model.weights.

    And a program_<variant>.c for every further one.
    """

    folder: Path

    @property
    def header(self) -> Path:
        return self.folder / "model.h"

    @property
    def programs(self) -> tuple[Path, ...]:
        """The C of each variant."""
        return tuple(sorted(self.folder.glob("program*.c")))

    @property
    def integer(self) -> bool:
        """Whether any layer's sums are of integers."""
        return any("cf_integer_tables" in path.read_text() for path in self.programs)

    @property
    def outside(self) -> Path | None:
        """The weights, where they are no part of the library."""
        path = self.folder / FILE
        return path if path.exists() else None

    @property
    def layout(self) -> Layout | None:
        """What ``outside`` fits."""
        path = self.folder / "layout.json"
        return Layout.of(json.loads(path.read_text())) if path.exists() else None

    @property
    def weights(self) -> Path:
        return self.outside or self.folder / "weights.bin"

    @property
    def description(self) -> Path:
        return self.folder / "model.json"

    @property
    def several_signatures(self) -> bool:
        """Whether there is one to choose."""
        return "signatures" in json.loads(self.description.read_text())


def emit(
    program: Program,
    spec: ModelSpec,
    target: Target,
    folder: Path,
    *,
    kernels: Sequence[Path] = (),
    others: Mapping[Variant, Program] | None = None,
    probe: Probe | None = None,
) -> Sources:
    """Write the sources of ``program`` into ``folder``, byte for byte the same for the same input.

    ``kernels``: XLA's object files, without which the weights are always part of the library. ``others``: the same
    model for other batches and sizes, over the same weights. ``probe``: of a library that also measures
    how long each step takes (builder/runtime/probe/profile.h), or shows what each one finds in memory (observe.h).
    """
    sources, others = Sources(folder), others or {}
    steps = [step for p in (program, *others.values()) for step in walk(p.steps)]
    isas = target.isas(fused=uses_fused(steps), integer=uses_integer(steps))
    outside = layout_of(program, kernels, others) if kernels and spec.weights.place != "library" else None
    description = model_json(program, spec, {target.name: isas}, outside, others)
    sources.description.write_text(description + "\n")
    sources.header.write_text(header_source(program, others))
    source = program_source(
        program,
        description,
        flat_run_source(program),
        probe=probe,
        outside=outside,
        others=others,
        signatures=_signatures(spec, others),
    )
    (folder / "program.c").write_text(source)
    for variant, other in others.items():
        (folder / f"program{variant.symbol}.c").write_text(other_source(other, variant, outside=outside is not None))
    if outside:
        (folder / "layout.json").write_text(json.dumps(outside.to_dict(), indent=1) + "\n")
        write_outside(program, outside, folder / FILE)
        return sources
    with sources.weights.open("wb") as file:
        write_weights(program, file)
    (folder / "weights.S").write_text(weights_source(sources.weights))
    return sources


def _signatures(spec: ModelSpec, others: Mapping[Variant, Program]) -> tuple[str, ...]:
    if not any(variant.signature for variant in others):
        return ()
    return (spec.source.signature or "", *(one.name for one in spec.signatures))
