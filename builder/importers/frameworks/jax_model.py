"""Reads functions that ``jax.export`` serialised: StableHLO, types and shapes, without Python code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export, tree_util

from builder.base.arrays import Array
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error
from builder.importers.frameworks.framework_model import FrameworkModel, distinct_names, make_port
from builder.importers.ports import ModelPorts, PortInfo

_PLATFORM = "cpu"


def open_jax(path: Path) -> FrameworkModel:
    """Open the function in ``path``. Feeds and fetches are named after the function's arguments and results.

    Raises ImportModelError for a file that is not from jax.export, or that a single CPU cannot run.
    """
    try:
        exported = export.deserialize(bytearray(path.read_bytes()))
    except Exception as error:  # A file that is not a flatbuffer fails in many ways.
        raise ImportModelError(
            f"{path.name} is not what jax.export's `serialize()` gives: {describe_error(error)}"
        ) from error
    _require_runs_here(exported, path.name)
    arguments, results = exported.in_tree, exported.out_tree

    def call(*feeds: Any) -> list[Any]:
        args, kwargs = tree_util.tree_unflatten(arguments, feeds)
        return list(tree_util.tree_leaves(exported.call(*args, **kwargs)))

    def answer(feeds: Sequence[Array]) -> list[Array]:
        return [np.asarray(value) for value in jax.jit(call)(*feeds)]

    feeds = _make_ports(_list_paths(arguments, skip=1), "input", exported.in_avals)
    fetches = _make_ports(_list_paths(results), "output", exported.out_avals)
    return FrameworkModel(ModelPorts(feeds, fetches), lambda: call, answer)


def _require_runs_here(exported: Any, name: str) -> None:
    if _PLATFORM not in exported.platforms:
        raise ImportModelError(
            f'{name} was exported for {", ".join(exported.platforms)}: export it with platforms=["cpu"].'
        )
    if exported.nr_devices != 1:
        raise ImportModelError(f"{name} was exported for {exported.nr_devices} devices: export it for one.")
    if exported.ordered_effects or exported.unordered_effects:
        raise ImportModelError(f"{name} has side effects (a callback, a print): export it without them.")


def _list_paths(tree: Any, skip: int = 0) -> list[tuple[Any, ...]]:
    """Return the path of each leaf without its first ``skip`` keys, which say positional or by keyword."""
    numbered = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [path[skip:] for path, _ in tree_util.tree_flatten_with_path(numbered)[0]]


def _make_ports(paths: Sequence[tuple[Any, ...]], kind: str, avals: Sequence[Any]) -> tuple[PortInfo, ...]:
    """Return the ports; open dimensions are JAX's symbolic ones."""
    names = distinct_names([[getattr(key, "key", getattr(key, "name", key)) for key in path] for path in paths], kind)
    return tuple(make_port(name, str(aval.dtype), aval.shape) for name, aval in zip(names, avals, strict=True))
