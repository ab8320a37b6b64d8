"""Libraries of a model for this machine, one for each precision, which are compared and chosen from."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from builder.base.cache import compute_digest
from builder.base.errors import UsageError
from builder.base.targets import host_target
from builder.compiler.link.shared_library import build_library
from builder.compiler.lower.decisions import LoweringReport
from builder.config import Weights
from builder.pipeline.calibrate_layers import calibrate_model
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.lower_program import LOWERING, list_attempts, lower_variant, make_lowering_report
from builder.pipeline.resolved_options import ResolvedOptions
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.precision import Precision, apply_precision


@dataclass(frozen=True)
class Candidate:
    """Library of a precision ``kind``, except for the spec's exceptions, and the options it was lowered with."""

    kind: Precision
    library: Path
    lowering: LoweringReport
    settled: ResolvedOptions


def compile_here(ws: Workspace) -> CompiledVariant:
    """Compile the model for this machine, whatever its targets are; of several variants the first.

    Raises VerifyError if this machine has no target, UsageError for a model with state.
    """
    compiled = compile_first(ws.for_target(host_target()))
    if compiled.graph.states:
        raise UsageError(
            f"{ws.spec.name} keeps state from call to call: its answers to single inputs cannot be compared."
        )
    return compiled


def make_candidate(ws: Workspace, compiled: CompiledVariant, kind: Precision) -> Candidate:
    """Build a library for the target of ``compiled``, unless it exists. Its answers are not verified here.

    ``compiled``: from ``compile_here``, if the library is to run here. Ranges of activations are measured on
    [activations].images, or those of [weights].
    """
    settled = resolve_for_kind(ws, kind)
    ws = ws.for_spec(settled.spec)
    rounded = kind.activations != "float32"
    folder = ws.build_stage(
        f"accuracy-{kind.folder}",
        f"a library with {kind.weights} weights{' and activations' if rounded else ''}",
        compute_digest(*compiled.inputs, settled.key, compiled.kernels.target.name),
        functools.partial(_build_into, ws, compiled, settled),
        compiled.kernels.target.suffix,
    )
    return Candidate(kind, folder / "libmodel.so", LoweringReport.load(folder / LOWERING), settled)


def resolve_for_kind(ws: Workspace, kind: Precision) -> ResolvedOptions:
    """Return the options of a candidate of ``kind``: by the static rule alone, since tuning comes after the choice."""
    return calibrate_model(ws.for_spec(replace(apply_precision(ws.spec, kind), weights=Weights(kind.weights))))


def _build_into(ws: Workspace, compiled: CompiledVariant, settled: ResolvedOptions, folder: Path) -> None:
    attempt = list_attempts(settled.spec)[0]
    lowered = lower_variant(ws, compiled, settled, attempt)
    build_library(lowered.program, settled.spec, compiled.kernels, folder, ws.zig)
    make_lowering_report([lowered], settled, attempt).save(folder / LOWERING)
