"""Steps of a compiled model: their fused ops, their algorithms, and their times on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from builder.base.cache import compute_digest
from builder.base.console_tables import RULE, format_table
from builder.compiler.lower.decisions import LayerWeights, StepInfo, WeightSizes, describe_step, list_layer_weights
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import Step
from builder.package.bundle import Bundle
from builder.pipeline.compile_graph import CompiledVariant, compile_first
from builder.pipeline.lower_program import LoweringAttempt, list_attempts, lower_variant
from builder.pipeline.resolve_options import resolve_spec
from builder.pipeline.resolve_strings import complete_workspace
from builder.pipeline.workspace import Workspace
from builder.verify import step_probes


@dataclass(frozen=True)
class ExplainedStep:
    """One step. ``depth``: how many loops, branches and calls it stands in; ``calls``: how often a run comes to it.

    ``microseconds``: of all its calls together, in the fastest round; what is inside it not counted.
    ``flop`` and ``bytes`` are of one call; ``flop`` of a convolution or product, a multiply-add counted as two.
    """

    step: str
    depth: int
    kind: str
    algorithm: str
    matched: tuple[str, ...]
    flop: int
    bytes: int
    calls: int
    microseconds: float
    median_microseconds: float

    @property
    def gflops(self) -> float:
        """Speed in 10^9 floating-point operations per second."""
        return self.flop * self.calls / self.microseconds / 1e3 if self.microseconds else 0.0


@dataclass(frozen=True)
class Explanation:
    """The steps that a model runs, and their times."""

    model: str
    path: str
    """The lowering."""
    reason: str
    """Why that is not the optimised one."""
    isa: str
    """The instruction set of the fused kernels that ran."""
    threads: int
    rounds: int
    run_microseconds: float
    """The median of whole runs, the clock between the steps included."""
    rows: tuple[ExplainedStep, ...]
    weights: int
    """Bytes."""
    arena: int
    """Bytes."""
    layers: tuple[LayerWeights, ...] = ()
    """The weights of each step of kind layer, also of those inside loops, in the order they run."""

    @property
    def microseconds(self) -> float:
        """Microseconds of all steps."""
        return sum(row.microseconds for row in self.rows)

    @property
    def flop(self) -> int:
        """Floating-point operations of a run."""
        return sum(row.flop * row.calls for row in self.rows)

    @property
    def layer_share(self) -> float:
        """Share of the convolutions' and products' operations that run as layers."""
        fused = sum(row.flop * row.calls for row in self.rows if row.kind != "xla")
        return fused / self.flop if self.flop else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the table for JSON, unrounded."""
        steps = [
            asdict(row) | {"gflops": row.gflops, "share": row.microseconds / self.microseconds} for row in self.rows
        ]
        data: dict[str, Any] = asdict(self)
        del data["rows"]
        total = {"flop": self.flop, "microseconds": self.microseconds, "layer_share": self.layer_share}
        return data | {"together": total, "steps": steps}


@dataclass(frozen=True)
class Study:
    """An explanation with the program that was timed, and the graph that it was made of."""

    explanation: Explanation
    program: Program
    compiled: CompiledVariant


def study_model(ws: Workspace, *, threads: int = 1, seconds: float = 3.0) -> Study:
    """Compile the model if necessary, and time the lowering that its last bundle has (the first, without a bundle).

    Raises the ColdforgeError of a stage that fails, VerifyError where this machine can't run the library.
    """
    ws = complete_workspace(ws)
    settled = resolve_spec(ws)
    attempt = _find_bundle_attempt(ws.for_spec(settled.spec))
    compiled = compile_first(ws, in_parts=attempt.in_parts)
    ws = ws.for_spec(settled.spec)
    lowered = lower_variant(ws, compiled, settled, attempt)
    with ws.progress.show_stage("profile", "the same program with a clock between its steps") as outcome:
        folder, key = ws.build / "explain", compute_digest(*compiled.inputs, settled.key, attempt.name)
        library = step_probes.build_timed_library(lowered.program, ws.spec, compiled.kernels, folder, ws.cache, key)
        profiled = step_probes.ProfiledLibrary(library, lowered.program, compiled.graph, threads)
        times = step_probes.measure_steps({"": profiled}, seconds)[""]
        profiled.close()
        outcome.note = f"{times.rounds} runs"
    notes = _list_notes(lowered.program.steps, lowered.notes)
    rows = tuple(
        ExplainedStep(
            step=note.name,
            depth=depth,
            kind=note.kind,
            algorithm=note.algorithm,
            matched=note.matched,
            flop=note.flop,
            bytes=note.bytes,
            calls=calls,
            microseconds=fastest * 1e6,
            median_microseconds=median * 1e6,
        )
        for (depth, note), calls, fastest, median in zip(notes, times.calls, times.fastest, times.median, strict=True)
    )
    explanation = Explanation(
        model=ws.spec.name,
        path=attempt.name if lowered.path == attempt.path else lowered.path,
        reason=lowered.reason,
        isa=step_probes.host_isas(library)[-1],
        threads=threads,
        rounds=times.rounds,
        run_microseconds=times.run * 1e6,
        rows=rows,
        weights=lowered.program.weights_size,
        arena=lowered.program.arena_size,
        layers=list_layer_weights(lowered.program, settled.kept),
    )
    return Study(explanation, lowered.program, compiled)


def format_explanation(explanation: Explanation) -> str:
    """Return a table of the steps in the order they run, then the sums."""
    e = explanation
    rows: list[list[str] | None] = [_format_row(row, e.microseconds) for row in e.rows]
    moved, speed = sum(row.bytes * row.calls for row in e.rows), e.flop / e.microseconds / 1e3
    rows += [
        RULE,
        ["together", "", "", _format_mega(e.flop), f"{moved:,}", f"{e.microseconds:.1f}", f"{speed:.1f}", "100.0"],
    ]
    headers = ("step", "kind", "algorithm and what was fused", "MFLOP", "bytes", "µs", "GFLOP/s", "%")
    kinds = dict.fromkeys(row.kind for row in e.rows)
    counts = ", ".join(f"{sum(row.kind == kind for row in e.rows)} {kind}" for kind in kinds)
    sizes = WeightSizes.from_layers(e.weights, e.layers)
    compressed = f" ({sizes.as_float32:,} as float32, {100 * sizes.compressed_share:.1f} % of them compressed)"
    compressed = compressed if sizes.as_float32 != e.weights else ""
    lines = [
        format_table(headers, rows, right=(3, 4, 5, 6, 7), indent=0),
        "",
        f"{e.path}: {counts}; fused steps do {100 * e.layer_share:.1f} % of the convolutions' and products' work",
        f"{e.weights:,} bytes of weights{compressed}, {e.arena:,} of working memory",
        f"{e.isa}, {e.threads} {'thread' if e.threads == 1 else 'threads'}; the fastest of {e.rounds} runs of each "
        f"step; a whole run {e.run_microseconds:.1f} µs (median)",
    ]
    if e.reason:
        lines.append(f"one step per XLA thunk: {e.reason}")
    if e.layers:
        lines += ["", _format_layers(e.layers)]
    return "\n".join(lines)


def _format_layers(layers: tuple[LayerWeights, ...]) -> str:
    headers = ["step", "layer in the model", "weights", "count", "bytes", "kept because"]
    rows = [[w.step, w.layer, w.type, f"{w.count:,}", f"{w.bytes:,}", w.kept] for w in layers]
    if any(w.input or w.input_kept for w in layers):
        headers += ["input", "float32 because"]
        for row, layer in zip(rows, layers, strict=True):
            by = layer.input
            row.append(f"int8, {-by.zero * by.scale:.4g} to {(255 - by.zero) * by.scale:.4g}" if by else "float32")
            row.append(layer.input_kept)
    return format_table(headers, rows, right=(3, 4), indent=0)


def _find_bundle_attempt(ws: Workspace) -> LoweringAttempt:
    """Return the attempt that the bundle has, so that the packed program is explained."""
    possible = list_attempts(ws.spec)
    try:
        manifest = json.loads(Bundle.load(ws.bundle).manifest.read_text(encoding="utf-8"))
        return next(a for a in possible if a.name == manifest["lowering"]["path"])
    except (OSError, KeyError, ValueError, StopIteration):
        return possible[0]


def _list_notes(steps: tuple[Step, ...], notes: tuple[StepInfo, ...]) -> Iterator[tuple[int, StepInfo]]:
    """Yield (depth, note) of every step in the order of ``walk``; ``notes`` are those of the outermost steps."""
    for step, note in zip(steps, notes, strict=True):
        yield 0, replace(note, flop=0, bytes=0) if note.inside else note
        yield from ((1, inner) for inner in note.inside)
        for inner in () if note.inside else step.bodies:
            for depth, info in _list_notes(inner, tuple(map(describe_step, inner))):
                yield depth + 1, info


def _format_row(row: ExplainedStep, total: float) -> list[str]:
    what = " ".join([row.algorithm, " + ".join(row.matched)]).strip()
    times = f" ×{row.calls}" if row.calls != 1 else ""
    return [
        f"{'  ' * row.depth}{row.step}{times}",
        row.kind,
        what,
        _format_mega(row.flop * row.calls),
        f"{row.bytes * row.calls:,}",
        f"{row.microseconds:.1f}",
        f"{row.gflops:.1f}" if row.flop else "",
        f"{100 * row.microseconds / total:.1f}",
    ]


def _format_mega(flop: int) -> str:
    return f"{flop / 1e6:.1f}" if flop else ""
