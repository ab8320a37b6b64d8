"""Verify: a library's answers to the golden inputs against TensorFlow's, for every variant."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from builder.base.cache import digest
from builder.compiler.xla.descriptors import tensorflow_version
from builder.config import Variant
from builder.importers.graph import FrozenGraph
from builder.pipeline.compile_graph import CompiledModel
from builder.pipeline.compute_answers import failed
from builder.pipeline.import_model import named
from builder.pipeline.workspace import Workspace
from builder.verify.compare_answers import verify
from builder.verify.quantise import rounded_weights
from builder.verify.rounding import Rounding
from builder.verify.target_runner import machine_for
from builder.verify.verification import Verification, merged

Roundings = tuple[Rounding | None, ...]
"""For each variant, as each has a graph and golden inputs of its own; None where nothing is rounded."""


def roundings_of(ws: Workspace, compiled: CompiledModel, folder: Path) -> Roundings:
    """How the weights of the programs in ``folder`` were rounded, and TensorFlow's answers with such weights.

    ``folder``: of a lower stage, or any that ``lower.save_restored`` wrote to.
    """
    pairs = zip(ws.spec.variants, compiled.variants, strict=True)
    return tuple(_rounding(ws, variant, one.graph, folder) for variant, one in pairs)


def verify_variants(
    ws: Workspace, compiled: CompiledModel, library: Path, roundings: Sequence[Rounding | None]
) -> Verification:
    """``verify`` for each variant: one verification of all, in which further ones are named. Raises VerifyError."""
    machine = machine_for(ws.target, ws.cache)
    found = {
        variant.says: verify(
            library,
            one.graph,
            ws.spec.of_variant(variant),
            machine,
            rounding,
            variant=variant,
            watch=ws.progress.step,
        )
        for variant, one, rounding in zip(ws.spec.variants, compiled.variants, roundings, strict=True)
    }
    return merged(found)


def _rounding(ws: Workspace, variant: Variant, graph: FrozenGraph, folder: Path) -> Rounding | None:
    path = rounded_weights.path_in(folder, variant.suffix)
    if not path.exists():
        return None
    answers = ws.stage(
        f"restore{variant.suffix}",
        f"TensorFlow's answers with the library's rounded weights{named(variant)}",
        digest(path, graph.reference_path, graph.golden_path, graph.ports_path, tensorflow_version()),
        functools.partial(_restore, ws, graph, path),
        ws.target.suffix,
    )
    return rounded_weights.load(answers, ws.spec.weight_types)


def _restore(ws: Workspace, graph: FrozenGraph, path: Path, folder: Path) -> None:
    ws.sandboxed(_answer_restored, graph, path, folder=folder, reads=[graph.folder, path], failed=failed)


def _answer_restored(graph: FrozenGraph, path: Path) -> None:
    rounded_weights.make(graph, path, Path.cwd())
