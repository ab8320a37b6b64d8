"""A frozen graph as ``coldforge inspect`` reads it, in text or binary: refused by name, or every op in it is allowed.

What TensorFlow is given has been admitted, so this never looks for its own faults: the build's sandbox bounds those.
"""

from __future__ import annotations

from pathlib import Path

from builder.base.errors import ColdforgeError
from builder.config import FeedSpec, FetchSpec, Source
from builder.importers.allowed_ops import IMPORTED, admit_graph
from builder.importers.graph_def import open_graph_def
from builder.importers.rewrite import all_nodes
from builder.importers.xla_ops import is_compiled

FEEDS, FETCHES = (FeedSpec("x", (1, 4)),), (FetchSpec("y"),)
WRITTEN = Path("/tmp/coldforge-fuzz-was-here")
"""What the seeds' ops would write."""


def look(data: bytes, folder: Path) -> None:
    """Read ``data``; ``folder`` is for the file. Raises AssertionError for an op that was let in, or that ran."""
    path = folder / "model.pb"
    path.write_bytes(data)
    try:
        raw = open_graph_def(Source("graph_def", path), path, FEEDS, FETCHES).freeze({"x": (1, 4)})
        graph, _ = admit_graph(raw.graph_def, list(raw.fetches.values()), raw.feeds)
    except ColdforgeError:
        return
    finally:
        assert not WRITTEN.exists()
    functions = {function.signature.name for function in graph.library.function}
    for node in all_nodes(graph):
        assert node.op in functions or node.op in IMPORTED or is_compiled(node.op), node.op
