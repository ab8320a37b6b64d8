"""The results of an importer: the model's ports, and its GraphDef once shapes are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.config.tensor import IndexRange, c_identifier
from builder.importers.lookup_tables import LookupTable
from builder.importers.ports import ModelPorts
from builder.importers.strings.counted_terms import TermSteps
from builder.importers.variables_state import Variable

Shape = tuple[int, ...]

HOW_TO_TRUST = "add `trust = true` under [model] in model.toml (`init` and `inspect` take --trust)"
"""The end of a sentence about a model whose code would run."""


@dataclass(frozen=True)
class RawGraph:
    """A GraphDef without variables. ``feeds`` and ``fetches`` map port names to tensors ("node:index").

    ``variables``: the names in the model of variables that became constants, by node. ``states``: the remaining
    variables, which the graph writes, by the node of their handle. ``tables``: the contents of tables with strings as
    keys or values, by the node of the handle.
    """

    graph_def: Any
    feeds: Mapping[str, str]
    fetches: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, Variable] = field(default_factory=dict)
    tables: Mapping[str, LookupTable] = field(default_factory=dict)
    asserts: bool = False  # True if it had assertions, even if they were removed.
    ranges: Mapping[str, tuple[IndexRange, ...]] = field(default_factory=dict)
    """Ranges of indices that cannot be read from the graph, by feed."""
    quantised: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    """Scale and zero point of fetches whose integers stand for numbers."""
    symbols: Mapping[str, int] = field(default_factory=dict)
    """``StableHloProgram.symbols``."""
    samples: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Values [count, ...] of feeds that are better golden inputs than random ones."""
    replace_program: Callable[[Any], Any] | None = None
    """A function that returns the frozen graph with the program for the compiler, if that is another one."""


@dataclass(frozen=True)
class LoadedModel:
    """A model that was read; ``freeze`` returns its graph for static shapes of all feeds.

    ``terms``: the steps from its texts to the counts that its graph takes, if it has any.
    """

    ports: ModelPorts
    freeze: Callable[[Mapping[str, Shape]], RawGraph]
    terms: TermSteps | None = None


def make_names_unique(names: list[str]) -> list[str]:
    """Add ``_2``, ``_3`` ... to those of ``names`` that would give the same C identifier or macro."""
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


DEFAULT_SIGNATURE = "serving_default"


def choose_signature(wanted: str, there: Sequence[str], path: Path) -> str:
    """Return ``wanted``, or raise ImportModelError if it is not among the signatures of the model at ``path``."""
    if wanted in there:
        return wanted
    line = f': set `signature = "{there[0]}"` under [model] in model.toml' if there else ""
    raise ImportModelError(
        f"{path.name} has no signature {wanted!r}. It has {', '.join(there) or 'none at all'}{line}."
    )


def describe_renames(kind: str, names: Sequence[str], visible: Sequence[str]) -> tuple[str, ...]:
    """Describe in words which ``names`` of inputs or outputs (the ``kind``) differ from the ``visible`` ones."""
    return tuple(
        f"the {kind} {name!r} is called {other!r}: in C, another {kind} would have the same name"
        for name, other in zip(names, visible, strict=True)
        if name != other
    )


def tensor_name(name: str) -> str:
    """Return the full name of a tensor: ``node`` means ``node:0``."""
    node, colon, index = name.removeprefix("^").rpartition(":")
    return f"{node}:{index}" if colon and index.isdigit() else f"{name}:0"
