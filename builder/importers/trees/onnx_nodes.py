"""Ensembles of trees as ai.onnx.ml has them: lists of the nodes of all trees, and of the weights of their leaves.

Specification: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Tree, round_down

_LEAF, _EQUAL = "LEAF", "BRANCH_EQ"
_OPPOSITE = {"BRANCH_GT": "BRANCH_LEQ", "BRANCH_GTE": "BRANCH_LT", "BRANCH_NEQ": _EQUAL}
_MODES = {_LEAF, _EQUAL, "BRANCH_LEQ", "BRANCH_LT", *_OPPOSITE}


@dataclass(frozen=True, eq=False)
class OnnxNodes:
    """The nodes of all trees; the first one of a tree is its root.

    ``trees`` and ``numbers`` name a node; ``trues`` and ``falses`` are the numbers of its children. ``values``: float64
    [nodes], what a feature is compared with. ``tracks``: whether NaN goes to the true child whatever the comparison
    says; it may be empty.
    """

    trees: Sequence[int]
    numbers: Sequence[int]
    features: Sequence[int]
    modes: Sequence[str]
    values: NDArray[np.float64]
    trues: Sequence[int]
    falses: Sequence[int]
    tracks: Sequence[int]


@dataclass(frozen=True, eq=False)
class LeafWeights:
    """Weights: the tree and number of a leaf, the output, and what it adds to that; ``outputs`` in all.

    ``bases``: what is added to the sums or, with ``mean``, to the means of the trees.
    """

    trees: Sequence[int]
    numbers: Sequence[int]
    ids: Sequence[int]
    weights: NDArray[np.float64]
    outputs: int
    bases: tuple[float, ...]
    mean: bool = False


@dataclass(frozen=True, eq=False)
class OnnxTrees:
    """An ensemble over columns that are to be prepared from the features.

    ``ranked``: a feature and its sorted thresholds, for inputs of float64: a column has the number of thresholds below
    the value. It is empty for float32, where the first ``features`` columns are the features. ``equal``: a feature and
    sorted values, for further columns: the number of the value in them, -1 of another one.
    """

    ensemble: Ensemble
    ranked: tuple[tuple[int, NDArray[np.float64]], ...]
    equal: tuple[tuple[int, NDArray[np.float64]], ...]


def read_onnx_trees(
    nodes: OnnxNodes, weights: LeafWeights, features: int, dtype: Literal["float32", "float64"]
) -> OnnxTrees:
    """Return the ensemble for inputs of ``dtype`` with ``features`` columns. Raises ImportModelError."""
    if unknown := set(nodes.modes) - _MODES:
        raise ImportModelError(f"Trees of ONNX compare in a way that is not read: {', '.join(sorted(unknown))}.")
    branches = [i for i, mode in enumerate(nodes.modes) if mode != _LEAF]
    modes = [_OPPOSITE.get(mode, mode) for mode in nodes.modes]
    thresholds = np.array(nodes.values, dtype)
    below = np.array([mode == "BRANCH_LT" for mode in modes], bool)
    thresholds = np.where(below, np.nextafter(thresholds, thresholds.dtype.type(-np.inf)), thresholds)
    if dtype == "float64":  # XLA takes subnormals for zero.
        tiny = np.finfo(np.float64).tiny
        thresholds = np.where(np.abs(thresholds) < tiny, np.where(thresholds < 0, -tiny, 0), thresholds)
    ordered = [i for i in branches if modes[i] in ("BRANCH_LEQ", "BRANCH_LT")]
    unordered = [i for i in branches if modes[i] == _EQUAL]
    cuts = _collect_values(nodes.features, thresholds, ordered) if dtype == "float64" else {}
    equal = _collect_values(nodes.features, nodes.values, unordered)
    columns = np.array(nodes.features, np.int32)
    if cuts:
        numbers = {feature: number for number, feature in enumerate(cuts)}
        thresholds = thresholds.copy()
        for i in ordered:
            feature = nodes.features[i]
            thresholds[i] = np.searchsorted(cuts[feature], thresholds[i])
            columns[i] = numbers[feature]
    first = len(cuts) if dtype == "float64" else features
    places = {feature: first + number for number, feature in enumerate(equal)}
    categories = {}
    for i in unordered:
        feature = nodes.features[i]
        columns[i] = places[feature]
        categories[i] = frozenset({int(np.searchsorted(equal[feature], nodes.values[i]))})
    trees = _link_nodes(nodes, columns, round_down(thresholds), categories)
    grouped, groups = _place_leaves(nodes, weights, trees)
    names = tuple(f"f{i}" for i in range(first + len(equal)))
    ensemble = Ensemble(
        grouped, groups, names, weights.bases, dtype, "identity", True, len(grouped) if weights.mean else 1
    )
    return OnnxTrees(ensemble, tuple(cuts.items()), tuple(equal.items()))


def _collect_values(
    features: Sequence[int], values: NDArray[np.floating[Any]], nodes: Sequence[int]
) -> dict[int, NDArray[np.float64]]:
    """Return the sorted values by feature, of those that ``nodes`` have."""
    sets: dict[int, set[float]] = {}
    for node in nodes:
        sets.setdefault(features[node], set()).add(float(values[node]))
    return {feature: np.array(sorted(own), np.float64) for feature, own in sets.items()}


@dataclass(frozen=True, eq=False)
class _LinkedTree:
    """A tree without the values of its leaves; ``leaves``: the index of each one among the nodes."""

    features: NDArray[np.int32]
    thresholds: NDArray[np.float32]
    lefts: NDArray[np.int32]
    rights: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    categories: dict[int, frozenset[int]]
    leaves: tuple[int, ...]


def _link_nodes(
    nodes: OnnxNodes,
    columns: NDArray[np.int32],
    thresholds: NDArray[np.float32],
    categories: Mapping[int, frozenset[int]],
) -> list[_LinkedTree]:
    members: dict[int, list[int]] = {}
    for i, tree in enumerate(nodes.trees):
        members.setdefault(tree, []).append(i)
    linked = []
    for own in members.values():
        branches = [i for i in own if nodes.modes[i] != _LEAF]
        leaves = [i for i in own if nodes.modes[i] == _LEAF]
        slots = {nodes.numbers[i]: slot for slot, i in enumerate(branches)}
        slots |= {nodes.numbers[i]: ~slot for slot, i in enumerate(leaves)}
        if len(slots) < len(own) or (branches and branches[0] != own[0]):
            raise ImportModelError("A tree of the ONNX model has two nodes of one number, or begins with a leaf.")
        try:
            trues = np.array([slots[nodes.trues[i]] for i in branches], np.int32)
            falses = np.array([slots[nodes.falses[i]] for i in branches], np.int32)
        except KeyError as error:
            raise ImportModelError(f"A tree of the ONNX model has no node {error}, which is a child.") from error
        swapped = np.array([nodes.modes[i] in _OPPOSITE for i in branches], bool)
        tracked = np.array([bool(nodes.tracks[i]) if nodes.tracks else False for i in branches], bool)
        unequal = np.array([nodes.modes[i] == "BRANCH_NEQ" for i in branches], bool)
        linked.append(
            _LinkedTree(
                columns[branches],
                thresholds[branches],
                np.where(swapped, falses, trues),
                np.where(swapped, trues, falses),
                np.where(swapped, ~(tracked | unequal), tracked),  # NaN differs from every number.
                {slot: categories[i] for slot, i in enumerate(branches) if i in categories},
                tuple(leaves),
            )
        )
    return linked


def _place_leaves(
    nodes: OnnxNodes, weights: LeafWeights, linked: Sequence[_LinkedTree]
) -> tuple[tuple[Tree, ...], tuple[int, ...]]:
    """Return the trees with their leaves, and the first output of each."""
    if any(not 0 <= output < weights.outputs for output in weights.ids):
        raise ImportModelError(f"A leaf of the ONNX model adds to an output that is not one of {weights.outputs}.")
    indices = {key: i for i, key in enumerate(zip(nodes.trees, nodes.numbers, strict=True))}
    values = np.zeros((len(nodes.trees), weights.outputs))
    used = np.zeros((len(nodes.trees), weights.outputs), bool)
    rows = [indices[key] for key in zip(weights.trees, weights.numbers, strict=True)]
    np.add.at(values, (rows, list(weights.ids)), weights.weights)
    used[rows, list(weights.ids)] = True
    spans = [np.flatnonzero(used[list(tree.leaves)].any(0)) for tree in linked]
    width = max((int(span[-1] - span[0]) + 1 for span in spans if len(span)), default=1)
    firsts = [min(int(span[0]), weights.outputs - width) if len(span) else 0 for span in spans]
    nan: Missing = "nan"
    trees = [
        Tree(
            tree.features,
            tree.thresholds,
            tree.lefts,
            tree.rights,
            tree.missing_left,
            (nan,) * len(tree.features),
            values[list(tree.leaves), first : first + width],
            tree.categories,
        )
        for tree, first in zip(linked, firsts, strict=True)
    ]
    return tuple(trees), tuple(firsts)
