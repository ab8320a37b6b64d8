"""Turn a compiled graph into a Program."""

from __future__ import annotations

from pathlib import Path

from builder.importers.graph import FrozenGraph
from builder.lower.faithful import lower_faithfully
from builder.lower.program import Program
from builder.xla.result import read_result


def lower(metadata: Path, graph: FrozenGraph, cache: Path) -> Program:
    """The Program of a ``graph_metadata.o``; ``cache`` keeps TensorFlow's recovered schema.

    Only the faithful path exists so far; the optimised one will start from the same message.
    """
    return lower_faithfully(read_result(metadata, cache), graph.feeds, graph.fetches)
