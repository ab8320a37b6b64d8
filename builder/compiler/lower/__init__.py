"""Lowering of a compiled graph to a Program.

The optimised path fuses layers with all that follows them, over a new plan of memory. Operations that are not matched
stay XLA's own steps. A graph that is not one straight line of steps stays faithful except for its products with
constant weights. The reasons are kept for ``coldforge explain``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from builder.base.errors import LowerError, SpecError
from builder.compiler.lower.build_program import assemble_program
from builder.compiler.lower.compress import Array, Compressor, RoundedInput
from builder.compiler.lower.decisions import StepInfo, describe_step
from builder.compiler.lower.faithful import lower_faithfully
from builder.compiler.lower.gather_tables import add_gather_steps
from builder.compiler.lower.hlo import read_dag
from builder.compiler.lower.program import Program, bind_state, list_state_ports
from builder.compiler.lower.program_plan import LoweringOptions
from builder.compiler.lower.replace_in_loops import replace_products
from builder.compiler.lower.schedule import schedule_tasks
from builder.compiler.lower.thunks import read_thunks
from builder.compiler.xla.compilation_result import read_result
from builder.importers.graph import FrozenGraph

LoweringPath = Literal["optimised", "faithful"]


@dataclass(frozen=True)
class LoweredProgram:
    """A Program and the path that built it; ``notes`` has one for each of its steps.

    ``reason``: why the optimised path was not possible, if it was requested.
    """

    program: Program
    path: LoweringPath
    notes: tuple[StepInfo, ...]
    reason: str = ""
    restored: Mapping[str, Array] = field(default_factory=dict)
    """Constants of the graph with the library's rounded numbers, by digest. Empty on the faithful path."""
    rounded: tuple[RoundedInput, ...] = ()
    """The layers that read such constants, and how their input is rounded."""
    straight: bool = True
    """True if the graph is one straight line of steps, which can be rearranged."""

    @property
    def layer_share(self) -> float:
        """The share of the convolutions' and products' operations that run in coldforge's steps."""
        total = sum(note.flop for note in self.notes)
        return sum(note.flop for note in self.notes if note.kind != "xla") / total if total else 1.0


def lower_graph(
    metadata: Path,
    graph: FrozenGraph,
    cache: Path,
    path: LoweringPath = "optimised",
    options: LoweringOptions | None = None,
) -> LoweredProgram:
    """Lower a ``graph_metadata.o`` to a Program; ``cache`` keeps TensorFlow's recovered schema.

    "optimised" fuses what it can prove, and falls back to "faithful", one step per XLA thunk, if it can prove nothing.
    """
    result, options = read_result(metadata, cache), options or LoweringOptions()
    faithful = lower_faithfully(result, *list_state_ports(graph), options.share)
    compressor, reason = Compressor(options.weights), ""
    optimised: tuple[Program, tuple[StepInfo, ...]] | None = None
    if path == "optimised":
        try:
            optimised = _optimise_line(result, faithful, options, compressor, len(graph.states))
        except LowerError as error:
            compressor, reason = Compressor(options.weights), str(error)
            optimised = replace_products(result, faithful, options, compressor)
    program, notes = optimised or (faithful, tuple(describe_step(step) for step in faithful.steps))
    bound = bind_state(program, graph.states, graph.first_state())
    if optimised is None:
        return LoweredProgram(bound, "faithful", notes, reason)
    _require_layers(compressor)
    return LoweredProgram(
        bound,
        "optimised",
        notes,
        restored=compressor.restored,
        rounded=tuple(compressor.rounded),
        straight=not reason,
    )


def _optimise_line(
    result: Any, faithful: Program, options: LoweringOptions, compressor: Compressor, states: int
) -> tuple[Program, tuple[StepInfo, ...]]:
    """Optimise a graph that is one straight line of steps; raise LowerError, with the reason, for any other."""
    dag = read_dag(result)
    open_sizes = any(port.spec.dynamic for port in faithful.fetches)
    thunks = add_gather_steps(result, read_thunks(result, dag, faithful, enclose=open_sizes), compressor)
    scheduled = schedule_tasks(dag, thunks, options.is_product_wanted)
    return assemble_program(dag, scheduled, faithful, options, compressor, states)


def _require_layers(compressor: Compressor) -> None:
    """Raise SpecError for a pattern in the compressor's rules that matches no layer."""
    for pattern, _ in compressor.rules.layers:
        if not any(fnmatchcase(name, pattern) for name in compressor.names):
            names = ", ".join(dict.fromkeys(compressor.names)) or "none whose weights could be compressed"
            raise SpecError(f'[[layers]].name: "{pattern}" matches no layer of the model; its layers are: {names}.')
