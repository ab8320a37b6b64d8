"""A library of a model for each type of weights, for this machine: what is compared and chosen from."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass, replace
from pathlib import Path

from builder.cache import digest
from builder.decisions import Lowering, layer_weights
from builder.emit import emit
from builder.errors import UsageError, VerifyError
from builder.link.library import link_library
from builder.pipeline import LOWERING, Attempt, Compiled, attempts_for, compile_model, lower_by, run_stage
from builder.progress import Progress
from builder.project import Project
from builder.spec import TARGETS, ModelSpec, Weights, WeightType, to_json
from builder.verify.machine import ARCHITECTURES


@dataclass(frozen=True)
class Candidate:
    """The library with weights of ``type``, but for the spec's exceptions."""

    type: WeightType
    library: Path
    lowering: Lowering


def compile_here(spec: ModelSpec, project: Project, progress: Progress) -> Compiled:
    """The model compiled for this machine, whatever its targets are; of several batches the first.

    Raises VerifyError where the machine is none of them, UsageError for a model with state.
    """
    target = ARCHITECTURES.get(platform.machine().lower())
    if target not in TARGETS:
        raise VerifyError(f"this machine ({platform.machine()}) is none that libraries are made for: {TARGETS}.")
    made = compile_model(spec, project, progress, target)
    if made.graph.states:
        raise UsageError(f"{spec.name} keeps state from call to call: its answers to single inputs cannot be compared.")
    return made


def candidate(spec: ModelSpec, made: Compiled, kind: WeightType, project: Project, progress: Progress) -> Candidate:
    """Built unless it is there. What it answers is not verified here."""
    spec = replace(spec, weights=Weights(kind))
    attempt = attempts_for(spec)[0]
    key = (made.kernels.metadata_path, made.kernels.kernels_path, to_json(spec), made.graph.ports_path)
    folder = run_stage(
        spec,
        project,
        progress,
        f"accuracy-{kind}",
        f"a library with {kind} weights",
        digest(*key, made.kernels.target),
        functools.partial(_build, attempt, made, spec, project.cache),
    )
    return Candidate(kind, folder / "libmodel.so", Lowering.load(folder / LOWERING))


def _build(attempt: Attempt, made: Compiled, spec: ModelSpec, cache: Path, folder: Path) -> None:
    lowered = lower_by(attempt, made, spec, {}, cache)
    sources = emit(lowered.program, spec, made.kernels.target, folder)
    link_library(sources, [made.kernels.kernels_path], made.kernels.target, folder, cache / "zig")
    weights, size = layer_weights(lowered.program), lowered.program.weights_size
    lowering = Lowering(lowered.path, len(lowered.notes), (), lowered.reason, weights=weights, weights_size=size)
    lowering.save(folder / LOWERING)
