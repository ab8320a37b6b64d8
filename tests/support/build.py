"""From a traced TensorFlow function to a verified libmodel.so, with the pipeline's own stages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.base.project import cache_folder
from builder.base.targets import X86_64, Target
from builder.compiler.emit import emit_sources
from builder.compiler.link.shared_library import SharedLibrary, link_library
from builder.compiler.lower import LoweredProgram, LoweringOptions, LoweringPath, lower_graph
from builder.compiler.lower.decisions import list_layer_weights
from builder.compiler.xla import tfcompile
from builder.config import ModelSpec, Source, Tolerance
from builder.importers.freeze import write_frozen
from builder.importers.graph import FrozenGraph
from builder.importers.loaded import RawGraph
from builder.importers.rewrite import keep_cases_functional
from builder.verify.expected_answers import Rounding
from builder.verify.quantise import rounded_reference
from builder.verify.reference_answers import answer_calls
from builder.verify.reference_graph import ReferenceGraph

ROOT = Path(__file__).resolve().parents[2]
CACHE = cache_folder()
TARGET = X86_64

Arrays = Mapping[str, Any]


def spec_of(name: str, absolute: float = 1e-5, relative: float = 1e-4) -> ModelSpec:
    """The spec of a graph made in a test."""
    source = Source("graph_def", ROOT / "build" / f"{name}.pb")
    return ModelSpec(ROOT / "model.toml", name, "1", source, tolerance=Tolerance(absolute, relative))


def freeze_function(concrete: Any, feeds: Sequence[str], folder: Path) -> FrozenGraph:
    """A concrete function with static shapes as a FrozenGraph; its fetches are called y0, y1, ..."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    keep_cases_functional(concrete.graph)
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    # Grappler calls what it makes of a nested branch by its node alone: a second trace would clash with the first.
    for function in frozen.graph.as_graph_def().library.function:
        while context.context().has_function(function.signature.name):
            context.context().remove_function(function.signature.name)
    fetches = {f"y{i}": t.name for i, t in enumerate(frozen.outputs)}
    raw = RawGraph(
        frozen.graph.as_graph_def(),
        {name: t.name for name, t in zip(feeds, frozen.inputs, strict=True)},
        fetches,
    )
    shapes = {name: tuple(t.shape) for name, t in zip(feeds, frozen.inputs, strict=True)}
    return write_frozen(raw, shapes, {name: name for name in fetches}, spec_of(folder.name), folder)


def write_golden(graph: FrozenGraph, samples: Sequence[Arrays]) -> None:
    """TensorFlow's answers to ``samples`` as golden.npz."""
    answer_calls(
        graph, ReferenceGraph.read(graph), {str(number): feeds for number, feeds in enumerate(samples)}
    ).write_golden(graph.golden_path)


def compile_here(graph: FrozenGraph, folder: Path, target: Target = TARGET) -> None:
    """Compile in this process, which has TensorFlow loaded already."""
    os.chdir(folder)  # tfcompile writes into the current folder
    tfcompile.run_tfcompile(graph.folder.resolve(), target)


def rounding_of(lowered: LoweredProgram, graph: FrozenGraph, folder: Path) -> Rounding | None:
    """TensorFlow's answers to the golden feeds with the weights as ``lowered`` has them; None where none is rounded."""
    if not lowered.restored:
        return None
    path = rounded_reference.make_rounded_path(folder)
    rounded_reference.save_rounded(path, lowered.restored, lowered.rounded)
    rounded_reference.make_rounded_answers(graph, path, folder)
    return rounded_reference.load_rounding(folder, {layer.type for layer in list_layer_weights(lowered.program)})


def build_library(
    graph: FrozenGraph,
    spec: ModelSpec,
    folder: Path,
    path: LoweringPath = "optimised",
    options: LoweringOptions | None = None,
    target: Target = TARGET,
) -> SharedLibrary:
    """Compile, unless the graph's folder holds the objects already, then lower, emit and link in ``folder``."""
    compiled = graph.folder.resolve()
    if not (compiled / "graph_metadata.o").exists():
        compile_here(graph, compiled, target)
    program = lower_graph(compiled / "graph_metadata.o", graph, CACHE, path, options).program
    sources = emit_sources(program, spec, target, folder)
    return link_library(sources, [compiled / "graph.o"], target, folder, CACHE / "zig")
