"""Compile: XLA makes kernels of each variant's frozen graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.cache import digest
from builder.importers.graph import FrozenGraph
from builder.spec import Variant
from builder.stages.imported import ImportedModel, import_variants, named
from builder.workspace import Workspace
from builder.xla.descriptors import tensorflow_version
from builder.xla.tfcompile import CompiledGraph, compile_graph, flags_for


@dataclass(frozen=True)
class CompiledVariant:
    """One variant as XLA left it: its frozen graph, its kernels and all that XLA knows of them."""

    graph: FrozenGraph
    kernels: CompiledGraph

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that whatever is lowered and linked of it depends on."""
        return self.kernels.metadata_path, self.kernels.kernels_path, self.graph.ports_path


@dataclass(frozen=True)
class CompiledModel:
    """Every variant of a model as XLA left it. ``path``: the trained model's file."""

    path: Path
    variants: tuple[CompiledVariant, ...]

    @property
    def first(self) -> CompiledVariant:
        """The default variant."""
        return self.variants[0]

    def of_signatures(self, variants: Sequence[Variant]) -> tuple[FrozenGraph, ...]:
        """The graph of the first variant of each signature. ``variants``: what these here are of."""
        found: dict[int, FrozenGraph] = {}
        for variant, one in zip(variants, self.variants, strict=True):
            found.setdefault(variant.signature, one.graph)
        return tuple(found.values())

    @property
    def kernels(self) -> list[Path]:
        """XLA's object file of each variant."""
        return [variant.kernels.kernels_path for variant in self.variants]

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that whatever is lowered and linked depends on, of all variants."""
        return tuple(path for variant in self.variants for path in variant.inputs)


def compile_variants(ws: Workspace, imported: ImportedModel) -> CompiledModel:
    """Compile every variant for the workspace's target, or take it from an earlier run.

    Raises CompileError with XLA's own reason.
    """
    pairs = zip(ws.spec.variants, imported.graphs, strict=True)
    return CompiledModel(imported.path, tuple(_compile_variant(ws, variant, graph) for variant, graph in pairs))


def compile_first(ws: Workspace) -> CompiledVariant:
    """Import and compile the first variant alone. Raises as ``import_variants`` and ``compile_variants`` do."""
    return compile_variants(ws.alone, import_variants(ws.alone)).first


def _compile(ws: Workspace, graph: FrozenGraph, part: str, folder: Path) -> None:
    compile_graph(graph, ws.target, folder, part, ws.sandbox, ws.progress.detail)


def _compile_variant(ws: Workspace, variant: Variant, graph: FrozenGraph) -> CompiledVariant:
    target, part = ws.target, variant.symbol
    folder = ws.stage(
        "compile",
        f"tfcompile{', for its LLVM IR' if target.xla.leaves_ir else f' for {target.name}'}{named(variant)}",
        digest(graph.graph_path, graph.config_path, target.name, part, flags_for(target), tensorflow_version()),
        functools.partial(_compile, ws, graph, part),
        f"{target.suffix}{variant.suffix}",
    )
    return CompiledVariant(graph, CompiledGraph.load(folder, target))
