"""Tuning: the algorithms that each layer of a model can have, timed where it runs, among the model's other steps.

The model is built once for every algorithm, the builds take turns, and each layer gets its fastest algorithm. One
library for several instruction sets gets the algorithm that is the fastest over all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from builder.base.cache import compute_digest
from builder.base.console_tables import format_table
from builder.base.files import write_file
from builder.compiler.lower import LoweredProgram
from builder.compiler.lower.geometry import Algorithm
from builder.compiler.lower.packing import list_algorithms
from builder.compiler.lower.steps.base import walk_steps
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.config import ModelSpec
from builder.measure.machine import cpu_name
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.lower_program import ATTEMPTS, ResolvedOptions, lower_variant
from builder.pipeline.read_tuning import AlgorithmChoice, AlgorithmTimes, Tuning, kernels_digest
from builder.pipeline.resolve_options import resolve_by_rule
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.verify import step_probes

ROUNDS = 15
"""Smallest number of rounds."""

LayerTimes = dict[str, dict[str, dict[str, float]]]
"""Microseconds, by label, instruction set and algorithm."""

MARGIN = 1.03
"""Factor by which an algorithm must be faster than the static rule's: less is noise, and the rule needs no file."""


@dataclass(frozen=True)
class TuningResult:
    """Result of tuning; ``tuning`` was written to ``path``, unless it is empty.

    ``rule``: the static rule's choice, by ``Geometry.label``. ``rest``: microseconds of all steps without a choice, by
    instruction set.
    """

    path: Path
    tuning: Tuning
    rule: Mapping[str, Algorithm]
    rest: Mapping[str, float]
    rounds: int

    @property
    def behind(self) -> dict[str, float]:
        """The share by which the rule's steps are slower than the tuned ones, by instruction set: 0.05 is 5 %."""
        layers = self.tuning.layers
        shares = {}
        for isa, rest in self.rest.items():
            tuned = sum(choice.microseconds[isa][choice.algorithm] for choice in layers.values())
            ruled = sum(choice.microseconds[isa][self.rule[label]] for label, choice in layers.items())
            shares[isa] = (rest + ruled) / (rest + tuned) - 1
        return shares


def tune_model(ws: Workspace, *, seconds: float = 10.0) -> TuningResult:
    """Measure every algorithm of every layer for about ``seconds`` in all, on one thread, and write the tuning file.

    Winograd is no candidate where the spec forbids it. Raises the ColdforgeError of a stage that fails, VerifyError
    where this machine can't run the library.
    """
    ws = complete_workspace(ws)
    compiled, settled, spec = compile_first(ws), resolve_by_rule(ws), ws.spec
    possible = dict(_open_questions(spec, _lower_with(ws, compiled, settled, {})))
    rule = {label: algorithms[0] for label, algorithms in possible.items()}
    times: LayerTimes = {}
    rest: dict[str, float] = {}
    rounds = 0
    if possible:
        with ws.progress.show_stage("tune", f"{len(possible)} kinds of layer, each timed in place") as outcome:
            times, rest, rounds = _time_algorithms(ws, compiled, settled, possible, seconds)
            outcome.note = f"{rounds} rounds"
    layers = {label: AlgorithmChoice(choose_fastest(rule[label], times[label]), times[label]) for label in possible}
    tuning = Tuning(kernels_digest(), ws.target.name, cpu_name(), layers)
    if layers:
        write_file(spec.tuning_path, tuning.to_json())
    return TuningResult(spec.tuning_path, tuning, rule, rest, rounds)


def choose_fastest(rule: Algorithm, times: AlgorithmTimes) -> Algorithm:
    """Return the algorithm with the smallest geometric mean over the instruction sets, if it is clearly faster."""
    scores = {a: math.prod(of[a] for of in times.values()) ** (1 / len(times)) for a in next(iter(times.values()))}
    fastest = min(scores, key=lambda a: scores[a])
    return fastest if scores[fastest] * MARGIN < scores[rule] else rule  # type: ignore[return-value]


def format_tuning(tuned: TuningResult) -> str:
    """Return a table of every layer with a choice: each candidate's time, and the chosen one."""
    rows = []
    for label, choice in sorted(tuned.tuning.layers.items()):
        for isa, times in choice.microseconds.items():
            fastest = ", ".join(f"{name} {time:.1f}" for name, time in sorted(times.items(), key=lambda t: t[1]))
            gain = times[tuned.rule[label]] / times[choice.algorithm]
            verdict = "as the rule" if choice.algorithm == tuned.rule[label] else f"{gain:.2f} × the rule's"
            rows.append([label, isa, fastest, choice.algorithm, verdict])
    if not rows:
        return f"No layer of this model has a choice of algorithms: {tuned.path.name} was not written."
    headers = ("layer", "for", "µs, of all such layers together", "chosen", "")
    of_all = ", ".join(f"{share:.1%} ({isa})" for isa, share in tuned.behind.items())
    changed = sum(choice.algorithm != tuned.rule[label] for label, choice in tuned.tuning.layers.items())
    return (
        f"{format_table(headers, rows, indent=0)}\n\nwrote {tuned.path.name}: tuning changed {changed} of "
        f"{len(tuned.rule)} layer shapes, by the fastest of {tuned.rounds} rounds on one thread of {tuned.tuning.cpu}\n"
        f"the rule's choice is {of_all} behind it"
    )


def to_dict(tuned: TuningResult) -> dict[str, Any]:
    """Return the result for JSON; ``file`` is None where no layer has a choice, as nothing was written then."""
    layers = {label: asdict(choice) | {"rule": tuned.rule[label]} for label, choice in tuned.tuning.layers.items()}
    return {
        "file": str(tuned.path) if layers else None,
        "cpu": tuned.tuning.cpu,
        "rounds": tuned.rounds,
        "behind": {isa: round(share, 4) for isa, share in tuned.behind.items()},
        "layers": layers,
    }


def _lower_with(
    ws: Workspace, compiled: CompiledVariant, settled: ResolvedOptions, algorithms: Mapping[str, Algorithm]
) -> LoweredProgram:
    return lower_variant(ws, compiled, replace(settled, algorithms=algorithms), ATTEMPTS[0])


def _list_layers(lowered: LoweredProgram) -> Iterator[tuple[int, LayerStep]]:
    """Yield (number in ``walk``, step) of every layer."""
    for number, step in enumerate(walk_steps(lowered.program.steps)):
        if isinstance(step, LayerStep):
            yield number, step


def _open_questions(spec: ModelSpec, lowered: LoweredProgram) -> Iterator[tuple[str, tuple[Algorithm, ...]]]:
    """Yield the label and the candidates, the static rule's first, of every layer that has more than one."""
    for _, step in _list_layers(lowered):
        rounded = step.quantisation is not None
        options = list_algorithms(step.geometry, allow_winograd=spec.winograd, kind=step.weight_type, rounded=rounded)
        if len(options) > 1:
            yield step.geometry.label, options


def _time_algorithms(
    ws: Workspace,
    compiled: CompiledVariant,
    settled: ResolvedOptions,
    possible: Mapping[str, tuple[Algorithm, ...]],
    seconds: float,
) -> tuple[LayerTimes, dict[str, float], int]:
    """Return the times of layers, ``TuningResult.rest``, and the number of rounds."""
    lowered: dict[Algorithm, LoweredProgram] = {}
    profiled: dict[str, step_probes.ProfiledLibrary] = {}
    isas: tuple[str, ...] = ()
    algorithms = sorted({a for program in possible.values() for a in program})
    for number, algorithm in enumerate(algorithms):
        ws.progress.show_step(number, len(algorithms), f"building {algorithm}")
        everywhere = {label: algorithm for label, program in possible.items() if algorithm in program}
        lowered[algorithm] = _lower_with(ws, compiled, settled, everywhere)
        key = compute_digest(*compiled.inputs, settled.key, repr(sorted(everywhere)))
        folder = ws.build / f"tune-{algorithm}"
        program = lowered[algorithm].program
        library = step_probes.build_timed_library(program, settled.spec, compiled.kernels, folder, ws.cache, key)
        isas = step_probes.host_isas(library)
        for isa in isas:
            profiled[f"{isa} {algorithm}"] = step_probes.ProfiledLibrary(library, program, compiled.graph, isa=isa)
    ws.progress.show_step(len(algorithms), len(algorithms), "measuring")
    measured = step_probes.measure_steps(profiled, seconds, ROUNDS)
    for opened in profiled.values():
        opened.close()
    times: LayerTimes = {label: {isa: {} for isa in isas} for label in possible}
    rest = dict.fromkeys(isas, math.inf)
    for (algorithm, lowering), isa in itertools.product(lowered.items(), isas):
        fastest = [1e6 * time for time in measured[f"{isa} {algorithm}"].fastest]
        labels = {n: step.geometry.label for n, step in _list_layers(lowering) if step.geometry.label in possible}
        rest[isa] = round(min(rest[isa], sum(t for n, t in enumerate(fastest) if n not in labels)), 1)
        for number, label in labels.items():
            if algorithm in possible[label]:
                own = times[label][isa]
                own[algorithm] = round(own.get(algorithm, 0.0) + fastest[number], 1)
    return times, rest, min(m.rounds for m in measured.values())
