"""Weights of a frozen graph, by stable names: those of the model's variables, or else the constants' own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from builder.base.arrays import Array
from builder.base.tf import tf
from builder.importers.graph import MODEL_SCOPE

DTYPES = {
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64",
}  # fmt: skip
"""Names of NumPy's dtypes, and of ml_dtypes' bfloat16, that a weight may have: safetensors has all of them."""

TABLE = 64
"""Number of elements from which a constant that was no variable counts as a weight: a table, quantised weights."""


@dataclass(frozen=True)
class NamedWeight:
    """A weight. ``name``: its name in weights.safetensors; ``node``: the Const of graph.pb that has it."""

    name: str
    node: str
    value: Array


def list_weights(graph_def: Any, variables: Mapping[str, str]) -> tuple[NamedWeight, ...]:
    """Return the weights at the top of ``graph_def``, in its order.

    ``variables``: Const nodes that were variables, and their names. Constants of the model that were never variables
    count where they have at least TABLE elements, and in a graph that came frozen, which knows no variables, wherever
    they are floating-point tensors. Constants that the spec compiled in (scaling, activations) are no weights, nor are
    constants of a type that safetensors lacks.
    """
    used_names = {"__metadata__"}  # This is the one name in the file's header that is not a tensor.
    weights = []
    for node, tensor in _list_constants(graph_def):
        name = variables.get(node)
        if name is None and not _is_weight(tensor, frozen=not variables):
            continue
        name = _make_unique_name(name or node.removeprefix(MODEL_SCOPE), used_names)
        used_names.add(name)
        weights.append(NamedWeight(name, node, tf.make_ndarray(tensor)))
    return tuple(weights)


def save_tensors(tensors: Mapping[str, Array], path: Path) -> None:
    """Write ``tensors`` as a safetensors file; the same tensors in any order give the same bytes."""
    # The package takes an array's memory as it is, and writes several entries of metadata in a random order.
    row_major = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    safetensors.numpy.save_file(row_major, path, metadata={"format": "tf"})


def _list_constants(graph_def: Any) -> Iterator[tuple[str, Any]]:
    types = tf.dtypes
    for node in graph_def.node:
        if node.op == "Const" and node.name.startswith(MODEL_SCOPE):
            tensor = node.attr["value"].tensor
            if types.as_dtype(tensor.dtype).name in DTYPES:
                yield node.name, tensor


def _is_weight(tensor: Any, *, frozen: bool) -> bool:
    sizes = [d.size for d in tensor.tensor_shape.dim]
    floating = tf.dtypes.as_dtype(tensor.dtype).is_floating
    return bool(frozen and floating and sizes) or math.prod(sizes) >= TABLE


def _make_unique_name(name: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
