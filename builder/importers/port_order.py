"""The author's order of the inputs and outputs of a SavedModel's signature, which a protobuf map does not keep.

A signature is a wrapper around the author's function, which it calls with arguments in their order. Results without
names are called ``output_0``, ``output_1`` and so on; TensorFlow sorts named results before it saves them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from builder.importers.rewrite import called_by, node_of


def order_outputs(signature: Any) -> list[str]:
    """Sort the names of a signature's outputs, ``output_2`` before ``output_10``."""
    return sorted(signature.outputs, key=_natural_key)


def order_inputs(graph_def: Any, signature: Any) -> list[str]:
    """Sort the names of a signature's inputs by the arguments of the function it calls, if any, or by name."""
    keys = {node_of(info.name): key for key, info in signature.inputs.items()}
    places: dict[str, int] = {}
    for node in _passed_inputs(graph_def, {node_of(info.name) for info in signature.outputs.values()}):
        if node in keys:
            places.setdefault(keys[node], len(places))
    return sorted(signature.inputs, key=lambda key: (places.get(key, len(places)), _natural_key(key)))


def _passed_inputs(graph_def: Any, results: set[str]) -> Iterator[str]:
    """Yield the inputs that wrappers, called by the nodes ``results``, pass on, in the order of arguments."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    for call in (node for node in graph_def.node if node.name in results):
        for wrapper in (functions[name] for name in called_by(call) if name in functions):
            inputs = dict(zip((a.name for a in wrapper.signature.input_arg), map(node_of, call.input), strict=False))
            for inner in wrapper.node_def:
                if any(name in functions for name in called_by(inner)):
                    yield from (inputs[name] for name in map(node_of, inner.input) if name in inputs)


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares digits as numbers."""
    return [(len(part) if i % 2 else 0, part) for i, part in enumerate(re.split("([0-9]+)", name))]
