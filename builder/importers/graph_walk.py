"""The nodes of a graph, including those inside functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from builder.importers.graph import MODEL_SCOPE
from builder.importers.rewrite import called_by


def walk_nodes(definition: Any) -> Iterator[tuple[str, Any]]:
    """Yield every node of a GraphDef with its path in the model.

    A function's nodes come once, under the node that calls it first.
    """
    functions = {f.signature.name: f for f in definition.library.function}
    visited: set[str] = set()

    def visit(nodes: Iterable[Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for node in nodes:
            path = prefix + node.name
            if node.op not in functions:
                yield path, node
            for name in called_by(node):
                if name in functions and name not in visited:
                    visited.add(name)
                    yield from visit(functions[name].node_def, f"{path} > ")

    for path, node in visit(definition.node, ""):
        yield path.removeprefix(MODEL_SCOPE), node
