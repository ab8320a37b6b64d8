"""A library of a model for each type of weights and activations, for this machine: what is compared and chosen from."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from builder.cache import digest
from builder.emit import emit
from builder.errors import UsageError
from builder.link.library import link_library
from builder.lower.decisions import Lowering, layer_weights
from builder.pipeline import (
    LOWERING,
    Attempt,
    Compiled,
    Settled,
    attempts_for,
    compile_model,
    lower_by,
    run_stage,
    settle,
)
from builder.progress import Progress
from builder.project import Project
from builder.spec import Activations, ActivationType, ModelSpec, Weights, WeightType
from builder.targets import host_target


@dataclass(frozen=True)
class Kind:
    """What a library is made with: the type of its weights, and what its layers' inputs are rounded to."""

    weights: WeightType
    activations: ActivationType = "float32"

    def __str__(self) -> str:
        return f"{self.weights}, {self.activations} activations" if self.activations != "float32" else self.weights


KINDS = (Kind("float32"), Kind("float16"), Kind("bfloat16"), Kind("int8"), Kind("int8", "int8"))


@dataclass(frozen=True)
class Candidate:
    """The library of ``kind``, but for the spec's exceptions."""

    kind: Kind
    library: Path
    lowering: Lowering


def compile_here(spec: ModelSpec, project: Project, progress: Progress) -> Compiled:
    """The model compiled for this machine, whatever its targets are; of several batches the first.

    Raises VerifyError where the machine is none of them, UsageError for a model with state.
    """
    made = compile_model(spec, project, progress, host_target())
    if made.graph.states:
        raise UsageError(f"{spec.name} keeps state from call to call: its answers to single inputs cannot be compared.")
    return made


def of_kind(spec: ModelSpec, kind: Kind) -> ModelSpec:
    """``spec`` with the types of ``kind``; with its own activations, if it has some and ``kind`` does not forbid it."""
    weights, images = replace(spec.weights, type=kind.weights), spec.activations.images or spec.weights.images
    if kind.activations == "float32":
        layers = tuple(replace(layer, activations=None) for layer in spec.layers)
        return replace(spec, weights=weights, activations=Activations(), layers=layers)
    own: ActivationType = spec.activations.type if spec.calibrated else "int8"
    return replace(spec, weights=weights, activations=Activations(own, images))


def candidate(spec: ModelSpec, made: Compiled, kind: Kind, project: Project, progress: Progress) -> Candidate:
    """Built unless it is there. What it answers is not verified here.

    Ranges of activations are measured on [activations].images, or those of [weights].
    """
    spec = replace(of_kind(spec, kind), weights=Weights(kind.weights))
    settled = settle(spec, project, progress)
    attempt = attempts_for(spec)[0]
    key = (made.kernels.metadata_path, made.kernels.kernels_path, settled.key, made.graph.ports_path)
    folder = run_stage(
        spec,
        project,
        progress,
        f"accuracy-{kind.weights}{'-activations' if kind.activations != 'float32' else ''}",
        f"a library with {kind.weights} weights{' and activations' if kind.activations != 'float32' else ''}",
        digest(*key, made.kernels.target.name),
        functools.partial(_build, attempt, made, settled, project.cache),
    )
    return Candidate(kind, folder / "libmodel.so", Lowering.load(folder / LOWERING))


def _build(attempt: Attempt, made: Compiled, settled: Settled, cache: Path, folder: Path) -> None:
    lowered = lower_by(attempt, made, settled, {}, cache)
    sources = emit(lowered.program, settled.spec, made.kernels.target, folder)
    link_library(sources, [made.kernels.kernels_path], made.kernels.target, folder, cache / "zig")
    weights, size = layer_weights(lowered.program, settled.kept), lowered.program.weights_size
    lowering = Lowering(lowered.path, len(lowered.notes), (), lowered.reason, weights=weights, weights_size=size)
    lowering.save(folder / LOWERING)
