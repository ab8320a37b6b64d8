"""Libraries of a model for this machine, one for each precision, which are compared, timed and chosen from."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from builder.base.cache import compute_digest
from builder.base.errors import UsageError
from builder.base.targets import host_target
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import build_library
from builder.compiler.lower.decisions import LoweringReport
from builder.compiler.lower.program import Program
from builder.config import Weights
from builder.pipeline.calibrate_layers import calibrate_model
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.lower_program import LOWERING, ResolvedOptions, list_attempts, lower_variant, make_lowering_report
from builder.pipeline.workspace import Workspace
from builder.verify import step_probes
from builder.verify.quantise.precision import FLOAT32, MARGINS, Precision, Ratio, Timing, apply_precision

SECONDS, ROUNDS = 4.0, 10
"""The approximate duration, and the least number of rounds."""


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
    settled = _resolve_for_kind(ws, kind)
    ws = ws.for_spec(settled.spec)
    rounded = kind.activations != "float32"

    def build_into(folder: Path) -> None:
        attempt = list_attempts(settled.spec)[0]
        lowered = lower_variant(ws, compiled, settled, attempt)
        build_library(lowered.program, settled.spec, compiled.kernels, folder, ws.zig)
        make_lowering_report([lowered], settled, attempt).save(folder / LOWERING)

    folder = ws.build_stage(
        f"accuracy-{kind.folder}",
        f"a library with {kind.weights} weights{' and activations' if rounded else ''}",
        compute_digest(*compiled.inputs, settled.key, compiled.kernels.target.name),
        build_into,
        compiled.kernels.target.suffix,
    )
    return Candidate(kind, folder / "libmodel.so", LoweringReport.load(folder / LOWERING), settled)


def _resolve_for_kind(ws: Workspace, kind: Precision) -> ResolvedOptions:
    """Return the options of a candidate of ``kind``: by the static rule alone, since tuning comes after the choice."""
    return calibrate_model(ws.for_spec(replace(apply_precision(ws.spec, kind), weights=Weights(kind.weights))))


class _ClockedLibrary(NamedTuple):
    """A library with a clock between the steps of ``program``."""

    library: Path
    program: Program


def time_beside_float32(ws: Workspace, compiled: CompiledVariant, one: Candidate) -> Timing:
    """Time ``one`` against float32, on the first golden input: the sum of each step's fastest time, of both.

    It runs on one thread, and on two if this machine has two processors, since the function uses all of them.
    ``compiled``: from ``compile_here``. Raises the ColdforgeError of a stage that fails, VerifyError if this machine
    can't run one of the two.
    """
    with ws.progress.show_stage("time", f"{one.kind} beside float32, in turns") as outcome:
        float32 = _build_clocked(ws, compiled, _resolve_for_kind(ws, FLOAT32), FLOAT32)
        candidate = _build_clocked(ws, compiled, one.settled, one.kind)
        isas = step_probes.host_isas(candidate.library)
        threads = [count for count in MARGINS if count <= len(os.sched_getaffinity(0))]
        libraries: dict[str, step_probes.ProfiledLibrary] = {}
        with ExitStack() as stack:

            def turn(name: str, clocked: _ClockedLibrary, isa: str, count: int) -> None:
                opened = step_probes.ProfiledLibrary(*clocked, compiled.graph, count, isa)
                libraries[f"{name} {isa} {count}"] = stack.enter_context(closing(opened))

            # A library never runs twice in a row, as its weights would be in the caches. Two threads run only once
            # a round: a thread that has done its work waits a moment for more, and takes a processor for that.
            for ours, theirs in zip(threads, reversed(threads), strict=True):
                for isa in isas:
                    turn("candidate", candidate, isa, ours)
                    turn("float32", float32, isa, theirs)
            times = step_probes.measure_steps(libraries, SECONDS, ROUNDS)
        took = {name: sum(times_of_steps.fastest) for name, times_of_steps in times.items()}
        outcome.note = f"{min(times_of_steps.rounds for times_of_steps in times.values())} rounds"
    return Timing(
        tuple(
            Ratio(isa, count, round(took[f"candidate {isa} {count}"] / took[f"float32 {isa} {count}"], 3))
            for count in threads
            for isa in isas
        ),
        GeneratedSources.load(candidate.library.parent).isa[len(isas) :],
    )


def _build_clocked(
    ws: Workspace, compiled: CompiledVariant, settled: ResolvedOptions, kind: Precision
) -> _ClockedLibrary:
    attempt = list_attempts(settled.spec)[0]
    program = lower_variant(ws, compiled, settled, attempt).program
    folder, key = ws.build / f"timed-{kind.folder}", compute_digest(*compiled.inputs, settled.key, attempt.name)
    library = step_probes.build_timed_library(program, settled.spec, compiled.kernels, folder, ws.cache, key)
    return _ClockedLibrary(library, program)
