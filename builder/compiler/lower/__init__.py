"""Lowering of a compiled graph to a Program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from builder.compiler.lower.compress import Array, RoundedInput
from builder.compiler.lower.faithful import lower_faithfully
from builder.compiler.lower.optimise import optimise_graph
from builder.compiler.lower.options import LoweringOptions
from builder.compiler.lower.program import Program
from builder.compiler.lower.program_state import bind_state, list_state_ports
from builder.compiler.lower.step_info import StepInfo, describe_step
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
    result = read_result(metadata, cache)
    feeds, fetches = list_state_ports(graph)
    first = graph.first_state()
    reason = ""
    if path == "optimised":
        outcome = optimise_graph(result, feeds, fetches, options, len(graph.states))
        if outcome.program is not None:
            bound = bind_state(outcome.program, graph.states, first)
            return LoweredProgram(
                bound,
                "optimised",
                outcome.notes,
                restored=outcome.restored,
                rounded=outcome.rounded,
                straight=not outcome.reason,
            )
        reason = outcome.reason
    share = options is None or options.share
    program = bind_state(lower_faithfully(result, feeds, fetches, share), graph.states, first)
    return LoweredProgram(program, "faithful", tuple(describe_step(step) for step in program.steps), reason)
