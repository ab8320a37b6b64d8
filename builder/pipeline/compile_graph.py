"""Compile: XLA makes kernels of each variant's frozen graph, or of that for one input of its batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import ColdforgeError
from builder.compiler.lower.microbatch import is_worth_splitting
from builder.compiler.xla.compilation_result import read_result
from builder.compiler.xla.descriptors import read_tensorflow_version
from builder.compiler.xla.tfcompile import CompiledGraph, compile_graph, make_xla_flags
from builder.config import Variant
from builder.importers.graph import FrozenGraph
from builder.importers.variants import require_scaling
from builder.pipeline.import_model import ImportedModel, import_part, import_variants, label_variant
from builder.pipeline.workspace import Workspace


@dataclass(frozen=True)
class CompiledVariant:
    """One variant as XLA left it: its frozen graph, its kernels and all that XLA knows of them.

    ``part``: the graph for one input, where the kernels are of that and run once for each input of the batch.
    """

    graph: FrozenGraph
    kernels: CompiledGraph
    part: FrozenGraph | None = None

    @property
    def compiled(self) -> FrozenGraph:
        """The graph that the kernels are of."""
        return self.part or self.graph

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that whatever is lowered and linked of it depends on."""
        parts = [self.part.ports_path] if self.part else []
        return self.kernels.metadata_path, self.kernels.kernels_path, self.graph.ports_path, *parts


@dataclass(frozen=True)
class CompiledModel:
    """Every variant of a model as XLA left it. ``path``: the trained model's file."""

    path: Path
    variants: tuple[CompiledVariant, ...]

    @property
    def first(self) -> CompiledVariant:
        """The default variant."""
        return self.variants[0]

    def list_signature_graphs(self, variants: Sequence[Variant]) -> tuple[FrozenGraph, ...]:
        """The graph of the first variant of each signature. ``variants``: what these here are of."""
        found: dict[int, FrozenGraph] = {}
        for variant, one in zip(variants, self.variants, strict=True):
            found.setdefault(variant.signature, one.graph)
        return tuple(found.values())

    @property
    def kernels(self) -> list[Path]:
        """XLA's object files, each once."""
        return list(dict.fromkeys(variant.kernels.kernels_path for variant in self.variants))

    @property
    def in_parts(self) -> bool:
        """Whether any batch runs in parts."""
        return any(variant.part for variant in self.variants)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that whatever is lowered and linked depends on, of all variants."""
        return tuple(path for variant in self.variants for path in variant.inputs)


Compiler = Callable[[bool], CompiledModel]
"""Gives the compiled model, with batches in parts where asked for and worth it."""


def make_compiler(ws: Workspace, imported: ImportedModel) -> Compiler:
    """``compile_variants`` for ``ws`` and ``imported``, each way once at most."""

    @functools.cache
    def compiled(in_parts: bool) -> CompiledModel:
        if not in_parts and (other := compiled(True)) and not other.in_parts:
            return other
        return compile_variants(ws, imported, in_parts=in_parts)

    return compiled


def compile_variants(ws: Workspace, imported: ImportedModel, *, in_parts: bool = False) -> CompiledModel:
    """Compile every variant for the workspace's target, or take it from an earlier run.

    ``in_parts``: only for one input of its batch, where that is faster by rule. Raises CompileError with XLA's own
    reason.
    """
    made: dict[Variant, CompiledVariant] = {}
    for variant, graph in zip(ws.spec.variants, imported.graphs, strict=True):
        part = _compile_microbatch(ws, variant, graph, imported.path, made) if in_parts and variant.batch > 1 else None
        made[variant] = part or CompiledVariant(graph, _compile_variant(ws, variant, graph))
    return CompiledModel(imported.path, tuple(made.values()))


def compile_first(ws: Workspace, *, in_parts: bool = True) -> CompiledVariant:
    """Import and compile the first variant alone. Raises as ``import_variants`` and ``compile_variants`` do."""
    return compile_variants(ws.alone, import_variants(ws.alone), in_parts=in_parts).first


def _compile_microbatch(
    ws: Workspace, variant: Variant, graph: FrozenGraph, model: Path, made: Mapping[Variant, CompiledVariant]
) -> CompiledVariant | None:
    """``variant`` over the kernels for one input, which ``made`` may have.

    None where the batch had better run whole, and where the model is not to be had for one input.
    """
    if graph.states or any(port.spec.dynamic for port in graph.fetches):
        return None
    part = ws.spec.part_of(variant)
    if part in made:
        one = made[part]
    else:
        try:
            alone = import_part(ws, variant, model)
            require_scaling((1, alone), (variant.batch, graph))
        except ColdforgeError as error:  # it is made for this batch, say
            why = str(error).partition("\n")[0]
            ws.progress.show_lines(
                f"  all inputs run together{label_variant(variant)}: the model is not to be had for one. {why}"
            )
            return None
        one = CompiledVariant(alone, _compile_variant(ws, part, alone))
    worth = is_worth_splitting(read_result(one.kernels.metadata_path, ws.cache))
    return CompiledVariant(graph, one.kernels, one.graph) if worth else None


def _compile_into(ws: Workspace, graph: FrozenGraph, part: str, folder: Path) -> None:
    compile_graph(graph, ws.target, folder, part, ws.sandbox, ws.progress.show_detail)


def _compile_variant(ws: Workspace, variant: Variant, graph: FrozenGraph) -> CompiledGraph:
    target, part = ws.target, variant.symbol
    folder = ws.build_stage(
        "compile",
        f"tfcompile{', for its LLVM IR' if target.xla.leaves_ir else f' for {target.name}'}{label_variant(variant)}",
        compute_digest(
            graph.graph_path, graph.config_path, target.name, part, make_xla_flags(target), read_tensorflow_version()
        ),
        functools.partial(_compile_into, ws, graph, part),
        f"{target.suffix}{variant.suffix}",
    )
    return CompiledGraph.load(folder, target)
