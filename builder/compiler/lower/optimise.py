"""The optimised path: layers with all that follows them fused, over a new plan of memory.

Operations that are not matched stay XLA's own steps. A graph that is not one straight line of steps stays faithful
except for its products with constant weights. The reasons are kept for ``coldforge explain``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from builder.base.errors import LowerError, SpecError
from builder.compiler.lower.build_program import assemble_program
from builder.compiler.lower.compress import Array, Compressor, RoundedInput, WeightRules
from builder.compiler.lower.faithful import lower_faithfully
from builder.compiler.lower.gather_tables import add_gather_steps
from builder.compiler.lower.hlo import read_dag
from builder.compiler.lower.options import LoweringOptions
from builder.compiler.lower.program import Program
from builder.compiler.lower.replace_in_loops import replace_products
from builder.compiler.lower.schedule import schedule_tasks
from builder.compiler.lower.step_info import StepInfo
from builder.compiler.lower.thunks import read_thunks
from builder.importers.graph import GraphPort


@dataclass(frozen=True)
class OptimisedProgram:
    """The ``program``, or None where the whole graph stays faithful; ``reason``: why the graph or its memory does."""

    program: Program | None
    notes: tuple[StepInfo, ...] = ()
    reason: str = ""
    restored: Mapping[str, Array] = field(default_factory=dict)
    """The graph's constants that the library has rounded, as rounded; see ``Compressor``."""
    rounded: tuple[RoundedInput, ...] = ()
    """The rounding of the data that such constants are multiplied with."""

    @property
    def layer_share(self) -> float:
        """The share of the convolutions' and products' operations that run in coldforge's steps."""
        total = sum(note.flop for note in self.notes)
        return sum(note.flop for note in self.notes if note.kind != "xla") / total if total else 1.0


def optimise_graph(
    result: Any,
    feeds: tuple[GraphPort, ...],
    fetches: tuple[GraphPort, ...],
    options: LoweringOptions | None = None,
    states: int = 0,
) -> OptimisedProgram:
    """Optimise the graph of a CompilationResultProto, whose last ``states`` feeds and fetches are state.

    Raises LowerError as ``lower_faithfully`` does.
    """
    options = options or LoweringOptions()
    faithful = lower_faithfully(result, feeds, fetches, options.share)
    compressor, reason = Compressor(options.weights), ""
    optimised: tuple[Program, tuple[StepInfo, ...]] | None
    try:
        dag = read_dag(result)
        open_sizes = any(port.spec.dynamic for port in fetches)
        thunks = read_thunks(result, dag, faithful, enclose=open_sizes)
        scheduled = schedule_tasks(dag, add_gather_steps(result, thunks, compressor), options.is_product_wanted)
        optimised = assemble_program(dag, scheduled, faithful, options, compressor, states)
    except LowerError as error:
        compressor, reason = Compressor(options.weights), str(error)
        optimised = replace_products(result, faithful, options, compressor)
    if optimised is None:
        return OptimisedProgram(None, (), reason)
    _require_known(options.weights, compressor)
    return OptimisedProgram(*optimised, reason, compressor.restored, tuple(compressor.rounded))


def _require_known(rules: WeightRules, compressor: Compressor) -> None:
    """Raise SpecError for a pattern in ``rules`` that matches no layer."""
    for pattern, _ in rules.layers:
        if not any(fnmatchcase(name, pattern) for name in compressor.names):
            names = ", ".join(dict.fromkeys(compressor.names)) or "none whose weights could be compressed"
            raise SpecError(f'[[layers]].name: "{pattern}" matches no layer of the model; its layers are: {names}.')
