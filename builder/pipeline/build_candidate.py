"""A library of a model for each kind of numbers, for this machine: what is compared and chosen from."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from builder.base.cache import digest
from builder.base.errors import UsageError
from builder.base.targets import host_target
from builder.compiler.link.program_library import build_library
from builder.compiler.lower.decisions import LoweringReport
from builder.config import Weights
from builder.pipeline.calibrate_layers import calibrate
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.lower_program import LOWERING, attempts_for, program_of, report_of
from builder.pipeline.resolved_options import Settled
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.number_types import Kind, of_kind


@dataclass(frozen=True)
class Candidate:
    """The library of ``kind``, but for the spec's exceptions, and what it was lowered by."""

    kind: Kind
    library: Path
    lowering: LoweringReport
    settled: Settled


def compile_here(ws: Workspace) -> CompiledVariant:
    """The model compiled for this machine, whatever its targets are; of several variants the first.

    Raises VerifyError where libraries for this machine are not made, UsageError for a model with state.
    """
    compiled = compile_first(ws.on(host_target()))
    if compiled.graph.states:
        raise UsageError(
            f"{ws.spec.name} keeps state from call to call: its answers to single inputs cannot be compared."
        )
    return compiled


def candidate(ws: Workspace, compiled: CompiledVariant, kind: Kind) -> Candidate:
    """Built unless it is there, for what ``compiled`` is for. What it answers is not verified here.

    ``compiled``: by ``compile_here``, if the library is to run here. Ranges of activations are measured on
    [activations].images, or those of [weights].
    """
    settled = settled_for(ws, kind)
    ws = ws.for_spec(settled.spec)
    rounded = kind.activations != "float32"
    folder = ws.stage(
        f"accuracy-{kind.folder}",
        f"a library with {kind.weights} weights{' and activations' if rounded else ''}",
        digest(*compiled.inputs, settled.key, compiled.kernels.target.name),
        functools.partial(_build, ws, compiled, settled),
        compiled.kernels.target.suffix,
    )
    return Candidate(kind, folder / "libmodel.so", LoweringReport.load(folder / LOWERING), settled)


def settled_for(ws: Workspace, kind: Kind) -> Settled:
    """What a candidate of ``kind`` is lowered by: the static rule alone, as tuning comes after the choice."""
    return calibrate(ws.for_spec(replace(of_kind(ws.spec, kind), weights=Weights(kind.weights))))


def _build(ws: Workspace, compiled: CompiledVariant, settled: Settled, folder: Path) -> None:
    attempt = attempts_for(settled.spec)[0]
    lowered = program_of(ws, compiled, settled, attempt)
    build_library(lowered.program, settled.spec, compiled.kernels, folder, ws.zig)
    report_of([lowered], settled, attempt).save(folder / LOWERING)
