"""Attempts to lower, link and verify a model, until one agrees with TensorFlow.

The emitted C, the runtime and XLA's kernels become a library, or an archive for static linking.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from builder.base.cache import compute_digest
from builder.compiler.audit import AuditReport, audit_file
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import SharedLibrary, link_library
from builder.compiler.link.static_archive import ARCHIVE, link_archive
from builder.compiler.link.toolchain import zig_version
from builder.compiler.lower.decisions import LoweringReport
from builder.config import ModelSpec
from builder.package.manifest import list_tool_versions
from builder.pipeline.compile_graph import CompiledModel, Compiler
from builder.pipeline.lower_program import (
    EmittedSources,
    LoweringAttempt,
    ResolvedOptions,
    emit_variants,
    list_attempts,
)
from builder.pipeline.verify_library import Roundings, load_roundings, verify_variants
from builder.pipeline.workspace import Workspace
from builder.verify.quantise.precision import PrecisionChoice
from builder.verify.target_runner import prepare_machine
from builder.verify.verification import Verification, explain_failure


class Trial(Protocol):
    """Result of an attempt."""

    @property
    def final(self) -> bool:
        """True if no further attempt is worthwhile: this one agrees, or its weights are too coarse."""


T = TypeVar("T", bound=Trial)


def try_attempts(
    spec: ModelSpec, lowered: Callable[[LoweringAttempt], EmittedSources | None], tried: Callable[[EmittedSources], T]
) -> tuple[T, ...]:
    """Return the result of ``tried`` for each attempt that ``spec`` permits, until one is final. The last one counts.

    Attempts without sources for this model (None) are skipped, and so are those with the program of an earlier one: the
    same library would disagree again.
    """
    trials: list[T] = []
    programs: set[str] = set()
    for attempt in list_attempts(spec):
        emitted = lowered(attempt)
        if emitted is None or emitted.program in programs:
            continue
        programs.add(emitted.program)
        trials.append(tried(emitted))
        if trials[-1].final:
            break
    return tuple(trials)


@dataclass(frozen=True)
class VerifiedLibrary:
    """``libmodel.so`` of one attempt, its sources, and the results of the audit and of the verification.

    It need not have passed: ``pack_bundle`` refuses one that did not.
    """

    path: Path
    emitted: EmittedSources
    lowering: LoweringReport
    audit: AuditReport
    roundings: Roundings
    verification: Verification
    versions: Mapping[str, str] = field(default_factory=list_tool_versions)
    choice: PrecisionChoice | None = None  # that of the type of its weights, if the spec said "auto"

    @property
    def compiled(self) -> CompiledModel:
        """The model after XLA."""
        return self.emitted.compiled

    @property
    def sources(self) -> GeneratedSources:
        """The emitted C and weights."""
        return self.emitted.sources

    @property
    def states(self) -> tuple[str, ...]:
        """The variables that an opened model keeps from call to call."""
        return tuple(state.spec.name for state in self.compiled.first.graph.states)

    @property
    def final(self) -> bool:
        """True if no further attempt is worthwhile: it agrees, or its weights are too coarse."""
        return self.verification.passed or self.verification.too_coarse


def build_verified_library(ws: Workspace, compiled_for: Compiler, settled: ResolvedOptions) -> VerifiedLibrary:
    """Build the library of the first attempt that agrees with TensorFlow, or of the last one; ``ws.spec`` is resolved.

    Its ``lowering`` has the attempts that were given up for it, with reasons. Raises LowerError, LinkError, or
    VerifyError if a library fails in another way than by its answers.
    """

    def lowered(attempt: LoweringAttempt) -> EmittedSources | None:
        compiled = compiled_for(attempt.in_parts)
        return None if attempt.in_parts and not compiled.in_parts else emit_variants(ws, compiled, settled, attempt)

    *given_up, kept = try_attempts(ws.spec, lowered, functools.partial(_try_library, ws))
    why = tuple((trial.lowering.path, explain_failure(trial.verification)) for trial in given_up)
    return replace(kept, lowering=replace(kept.lowering, given_up=why), choice=settled.choice)


def _try_library(ws: Workspace, emitted: EmittedSources) -> VerifiedLibrary:
    compiled = emitted.compiled
    path = _link_shared(ws, emitted)
    with ws.progress.show_stage("audit", "the library against the portability policy"):
        report = audit_file(path, ws.target)
    roundings = load_roundings(ws, compiled, emitted.folder)
    machine = prepare_machine(ws.target, ws.cache)
    by = f", on {machine.name}" if machine.runner else ""
    with ws.progress.show_stage("verify", f"the library against the model's own answers{by}") as outcome:
        verification = verify_variants(ws, compiled, path, roundings)
        outcome.note = "" if verification.passed else f"DISAGREES: {explain_failure(verification)}"
        outcome.note = f"NOT RUN: {machine.missing}" if machine.missing else outcome.note
    return VerifiedLibrary(path, emitted, emitted.lowering, report, roundings, verification)


def _link_shared(ws: Workspace, emitted: EmittedSources) -> Path:
    """Link ``libmodel.so`` of an attempt, or take an earlier run's. Raises LinkError with the linker's message."""
    folder = _link_stage(ws, emitted, f"link{emitted.attempt.suffix}", "libmodel.so", link_library)
    return SharedLibrary(folder, ws.target).path


def link_static(ws: Workspace, emitted: EmittedSources) -> Path:
    """Return the folder of ``libmodel.a`` and of a library made of it alone, for verifying. Raises LinkError."""
    return _link_stage(ws, emitted, "archive", ARCHIVE, link_archive)


def _link_stage(ws: Workspace, emitted: EmittedSources, stage: str, file: str, link: Callable[..., object]) -> Path:
    kernels, target = emitted.compiled.kernels, ws.target
    return ws.build_stage(
        stage,
        f"{file} for {target.name}",
        compute_digest(emitted.folder, *kernels, target.name, zig_version()),
        lambda folder: link(emitted.sources, kernels, target, folder, ws.zig),
        target.suffix,
    )
