"""What an importer hands on: the ports it found, and a GraphDef for the shapes that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.config.tensor import IndexRange, c_identifier
from builder.importers.lookup_tables import LookupTable
from builder.importers.ports import ModelPorts
from builder.importers.variables_state import Variable

Shape = tuple[int, ...]

HOW_TO_TRUST = "add `trust = true` under [model] in model.toml (`init` and `inspect` take --trust)"
"""The rest of a sentence for a model whose code would run."""


@dataclass(frozen=True)
class RawGraph:
    """A GraphDef without variables. ``feeds`` and ``fetches`` lead from port name to tensor ("node:index").

    ``variables``: constants that were variables, node to the variable's name in the model. ``states``: variables
    that the graph writes and that are still there, by the node of their handle. ``tables``: what is in tables that
    strings are looked up in, or that give strings, by the node of the handle.
    """

    graph_def: Any
    feeds: Mapping[str, str]
    fetches: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, Variable] = field(default_factory=dict)
    tables: Mapping[str, LookupTable] = field(default_factory=dict)
    asserts: bool = False  # whether it had assertions, which may be gone
    ranges: Mapping[str, tuple[IndexRange, ...]] = field(default_factory=dict)
    """Ranges of indices that the graph does not show, by feed."""


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read; ``freeze`` gives its graph once every feed has a static shape."""

    ports: ModelPorts
    freeze: Callable[[Mapping[str, Shape]], RawGraph]


def make_names_unique(names: list[str]) -> list[str]:
    """``names`` with ``_2``, ``_3`` ... added where two would give the same C identifier or macro."""
    seen: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 1
        while c_identifier(candidate).lower() in seen:
            number += 1
            candidate = f"{name}_{number}"
        seen.add(c_identifier(candidate).lower())
        result.append(candidate)
    return result


def describe_renames(kind: str, names: Sequence[str], visible: Sequence[str]) -> tuple[str, ...]:
    """Say which ``names`` of inputs or outputs (the ``kind``) callers know by another name, the ``visible`` one."""
    return tuple(
        f"the {kind} {name!r} is called {other!r}: in C, another {kind} would have the same name"
        for name, other in zip(names, visible, strict=True)
        if name != other
    )


def tensor_name(name: str) -> str:
    """The full name of a tensor: ``node`` means ``node:0``."""
    node, colon, index = name.removeprefix("^").rpartition(":")
    return f"{node}:{index}" if colon and index.isdigit() else f"{name}:0"
