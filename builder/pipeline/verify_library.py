"""Verification: a library's answers to the golden inputs against TensorFlow's, for every variant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.base.cache import compute_digest
from builder.compiler.xla.compilation_result import read_tensorflow_version
from builder.config import Variant
from builder.importers.graph import FrozenGraph
from builder.pipeline.compile_graph import CompiledModel
from builder.pipeline.compute_answers import make_answers_error
from builder.pipeline.import_model import label_variant
from builder.pipeline.workspace import Workspace
from builder.verify.compare_answers import verify_library
from builder.verify.expected_answers import Rounding
from builder.verify.quantise import rounded_reference
from builder.verify.target_runner import prepare_machine
from builder.verify.verification import Verification, merge_verifications

Roundings = tuple[Rounding | None, ...]
"""Rounding of each variant, which has a graph and golden inputs of its own; None if nothing is rounded."""


def load_roundings(ws: Workspace, compiled: CompiledModel, folder: Path) -> Roundings:
    """Load the rounding of the weights in ``folder``, with TensorFlow's answers on such weights.

    ``folder``: that of a lower stage, or any that ``save_rounded_weights`` wrote to.
    """
    pairs = zip(ws.spec.variants, compiled.variants, strict=True)
    return tuple(_load_rounding(ws, variant, compiled_variant.graph, folder) for variant, compiled_variant in pairs)


def verify_variants(
    ws: Workspace, compiled: CompiledModel, library: Path, roundings: Sequence[Rounding | None]
) -> Verification:
    """Call ``verify_library`` for each variant; return one verification that names them. Raises VerifyError."""
    machine = prepare_machine(ws.target, ws.cache)
    verifications = {
        variant.says: verify_library(
            library,
            compiled_variant.graph,
            ws.spec.of_variant(variant),
            machine,
            rounding,
            variant=variant,
            watch=ws.progress.show_step,
        )
        for variant, compiled_variant, rounding in zip(ws.spec.variants, compiled.variants, roundings, strict=True)
    }
    return merge_verifications(verifications)


def _load_rounding(ws: Workspace, variant: Variant, graph: FrozenGraph, folder: Path) -> Rounding | None:
    path = rounded_reference.make_rounded_path(folder, variant.suffix)
    if not path.exists():
        return None
    answer = rounded_reference.make_rounded_answers
    answers = ws.build_stage(
        f"restore{variant.suffix}",
        f"TensorFlow's answers with the library's rounded weights{label_variant(variant)}",
        compute_digest(path, graph.reference_path, graph.golden_path, graph.ports_path, read_tensorflow_version()),
        lambda folder: ws.run_sandboxed(
            answer, graph, path, folder, folder=folder, reads=[graph.folder, path], failed=make_answers_error
        ),
        ws.target.suffix,
    )
    return rounded_reference.load_rounding(answers, ws.spec.weight_types)
