"""Timed: a candidate's library takes turns with the float32 one, with every instruction set that this machine has."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import digest
from builder.compiler.emit import GeneratedSources
from builder.compiler.lower.program import Program
from builder.pipeline.build_candidate import Candidate, settled_for
from builder.pipeline.compile_graph import CompiledVariant
from builder.pipeline.lower_program import attempts_for, program_of
from builder.pipeline.resolved_options import Settled
from builder.pipeline.workspace import Workspace
from builder.verify import profile
from builder.verify.quantise.choice import MARGINS, Ratio, Timing
from builder.verify.quantise.number_types import FLOAT32, Kind

SECONDS, ROUNDS = 4.0, 10
"""About so long, and at least so often."""


@dataclass(frozen=True)
class _Clocked:
    """A library with a clock between the steps of ``program``."""

    library: Path
    program: Program


def timed(ws: Workspace, compiled: CompiledVariant, one: Candidate) -> Timing:
    """The time of ``one`` beside float32, on the first golden input: the fastest of each step, added up, of both.

    On one thread, and on two where this machine has two processors: the function uses all that it has. ``compiled``:
    by ``compile_here``. Raises the ColdforgeError of a stage that fails, VerifyError where this machine can't run one
    of the two.
    """
    with ws.progress.stage("time", f"{one.kind} beside float32, in turns") as outcome:
        float32 = _clocked(ws, compiled, settled_for(ws, FLOAT32), FLOAT32)
        candidate = _clocked(ws, compiled, one.settled, one.kind)
        isas = profile.host_isas(candidate.library)
        threads = [count for count in MARGINS if count <= len(os.sched_getaffinity(0))]
        libraries: dict[str, profile.Profiled] = {}
        with ExitStack() as stack:

            def turn(name: str, which: _Clocked, isa: str, count: int) -> None:
                opened = profile.Profiled(which.library, which.program, compiled.graph, count, isa)
                libraries[f"{name} {isa} {count}"] = stack.enter_context(closing(opened))

            # Never the same library twice in a row, as its weights would be in the caches. Nor two threads, but once
            # a round: a thread that has done its work waits a moment for more, and takes a processor for that.
            for ours, theirs in zip(threads, reversed(threads), strict=True):
                for isa in isas:
                    turn("candidate", candidate, isa, ours)
                    turn("float32", float32, isa, theirs)
            times = profile.measure(libraries, SECONDS, ROUNDS)
        took = {name: sum(found.fastest) for name, found in times.items()}
        outcome.note = f"{min(found.rounds for found in times.values())} rounds"
    return Timing(
        tuple(
            Ratio(isa, count, round(took[f"candidate {isa} {count}"] / took[f"float32 {isa} {count}"], 3))
            for count in threads
            for isa in isas
        ),
        GeneratedSources.load(candidate.library.parent).isa[len(isas) :],
    )


def _clocked(ws: Workspace, compiled: CompiledVariant, settled: Settled, kind: Kind) -> _Clocked:
    attempt = attempts_for(settled.spec)[0]
    program = program_of(ws, compiled, settled, attempt).program
    folder, key = ws.build / f"timed-{kind.folder}", digest(*compiled.inputs, settled.key, attempt.name)
    return _Clocked(profile.build(program, settled.spec, compiled.kernels, folder, ws.cache, key), program)
