"""Compilation: XLA makes kernels of each variant's frozen graph, or of the graph for one input of its batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import ColdforgeError
from builder.compiler.lower.microbatch import is_worth_splitting
from builder.compiler.xla.compilation_result import read_result, read_tensorflow_version
from builder.compiler.xla.tfcompile import CompiledGraph, compile_graph, make_xla_flags
from builder.config import Variant
from builder.importers.graph import FrozenGraph
from builder.importers.spec_checks import require_scaling
from builder.pipeline.import_model import ImportedModel, import_part, import_variants, label_variant
from builder.pipeline.workspace import Workspace


@dataclass(frozen=True)
class CompiledVariant:
    """One variant after XLA: its frozen graph, its kernels and all that XLA knows of them.

    ``part``: the graph for one input, if the kernels are for that and run once for each input of the batch.
    """

    graph: FrozenGraph
    kernels: CompiledGraph
    part: FrozenGraph | None = None

    @property
    def compiled(self) -> FrozenGraph:
        """The graph for which the kernels were compiled."""
        return self.part or self.graph

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files on which lowering and linking depend."""
        parts = [self.part.ports_path] if self.part else []
        return self.kernels.metadata_path, self.kernels.kernels_path, self.graph.ports_path, *parts


@dataclass(frozen=True)
class CompiledModel:
    """Every variant of a model after XLA. ``path``: the trained model's file."""

    path: Path
    variants: tuple[CompiledVariant, ...]

    @property
    def first(self) -> CompiledVariant:
        """The default variant."""
        return self.variants[0]

    def list_signature_graphs(self, variants: Sequence[Variant]) -> tuple[FrozenGraph, ...]:
        """Return the graph of the first variant of each signature. ``variants``: those of ``self.variants``."""
        graphs: dict[int, FrozenGraph] = {}
        for variant, compiled in zip(variants, self.variants, strict=True):
            graphs.setdefault(variant.signature, compiled.graph)
        return tuple(graphs.values())

    @property
    def kernels(self) -> list[Path]:
        """XLA's object files, without repetition."""
        return list(dict.fromkeys(variant.kernels.kernels_path for variant in self.variants))

    @property
    def in_parts(self) -> bool:
        """True if any batch runs in parts."""
        return any(variant.part for variant in self.variants)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files of all variants on which lowering and linking depend."""
        return tuple(path for variant in self.variants for path in variant.inputs)


Compiler = Callable[[bool], CompiledModel]
"""A function that returns the compiled model, with batches in parts if wanted and worth it."""


def make_compiler(ws: Workspace, imported: ImportedModel) -> Compiler:
    """Return ``compile_variants`` for ``ws`` and ``imported``, which runs at most once each way."""

    @functools.cache
    def compiled(in_parts: bool) -> CompiledModel:
        if not in_parts and (other := compiled(True)) and not other.in_parts:
            return other
        return compile_variants(ws, imported, in_parts=in_parts)

    return compiled


def compile_variants(ws: Workspace, imported: ImportedModel, *, in_parts: bool = False) -> CompiledModel:
    """Compile every variant for the workspace's target, or take it from an earlier run.

    ``in_parts``: compile only for one input of a batch, if that is faster by rule. Raises CompileError with XLA's own
    reason.
    """
    variants: dict[Variant, CompiledVariant] = {}
    for variant, graph in zip(ws.spec.variants, imported.graphs, strict=True):
        part = _compile_microbatch(ws, variant, graph, imported.path, variants) if in_parts else None
        variants[variant] = part or CompiledVariant(graph, _compile_variant(ws, variant, graph))
    return CompiledModel(imported.path, tuple(variants.values()))


def compile_first(ws: Workspace, *, in_parts: bool = True) -> CompiledVariant:
    """Import and compile the first variant alone. Raises as ``import_variants`` and ``compile_variants`` do."""
    return compile_variants(ws.alone, import_variants(ws.alone), in_parts=in_parts).first


def _compile_microbatch(
    ws: Workspace, variant: Variant, graph: FrozenGraph, model: Path, made: Mapping[Variant, CompiledVariant]
) -> CompiledVariant | None:
    """Compile ``variant`` with the kernels for one input, which ``made`` may have.

    Return None if the batch should rather run whole, or if the model cannot be imported for one input.
    """
    if variant.batch == 1 or graph.states or any(port.spec.dynamic for port in graph.fetches):
        return None
    part = ws.spec.part_of(variant)
    if part in made:
        single = made[part]
    else:
        try:
            alone = import_part(ws, variant, model)
            require_scaling((1, alone), (variant.batch, graph))
        except ColdforgeError as error:  # e.g. the model is made for this batch only
            why = str(error).partition("\n")[0]
            ws.progress.show_lines(
                f"  all inputs run together{label_variant(variant)}: the model is not to be had for one. {why}"
            )
            return None
        single = CompiledVariant(alone, _compile_variant(ws, part, alone))
    worth = is_worth_splitting(read_result(single.kernels.metadata_path, ws.cache))
    return CompiledVariant(graph, single.kernels, single.graph) if worth else None


def _compile_variant(ws: Workspace, variant: Variant, graph: FrozenGraph) -> CompiledGraph:
    target, part = ws.target, variant.symbol
    folder = ws.build_stage(
        "compile",
        f"tfcompile{', for its LLVM IR' if target.xla.leaves_ir else f' for {target.name}'}{label_variant(variant)}",
        compute_digest(
            graph.graph_path, graph.config_path, target.name, part, make_xla_flags(target), read_tensorflow_version()
        ),
        lambda folder: compile_graph(graph, target, folder, part, ws.sandbox, ws.progress.show_detail),
        f"{target.suffix}{variant.suffix}",
    )
    return CompiledGraph.load(folder, target)
