"""Turn a compiled graph into a Program."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from builder.importers.graph import FrozenGraph
from builder.lower.faithful import lower_faithfully
from builder.lower.optimise import Options, optimise
from builder.lower.program import Program
from builder.xla.result import read_result

LoweringPath = Literal["optimised", "faithful"]


def lower(
    metadata: Path,
    graph: FrozenGraph,
    cache: Path,
    path: LoweringPath = "optimised",
    options: Options | None = None,
) -> Program:
    """The Program of a ``graph_metadata.o``; ``cache`` keeps TensorFlow's recovered schema.

    "optimised" fuses what it can prove and falls back to "faithful", one step per XLA thunk, where that is nothing.
    """
    result = read_result(metadata, cache)
    if path == "optimised":
        program = optimise(result, graph.feeds, graph.fetches, options).program
        if program is not None:
            return program
    return lower_faithfully(result, graph.feeds, graph.fetches)
