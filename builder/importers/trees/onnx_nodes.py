"""Ensembles of trees as ai.onnx.ml has them: lists of the nodes of all trees, and of the weights of their leaves.

Specification: https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleRegressor.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Tree, round_down

_LEAF, _EQUAL = "LEAF", "BRANCH_EQ"
_OPPOSITE = {"BRANCH_GT": "BRANCH_LEQ", "BRANCH_GTE": "BRANCH_LT", "BRANCH_NEQ": _EQUAL}
_MODES = {_LEAF, _EQUAL, "BRANCH_LEQ", "BRANCH_LT", *_OPPOSITE}
_NUMBERED = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", _EQUAL, "BRANCH_NEQ", _EQUAL)
_MEMBER = 6  # BRANCH_MEMBER, which is a BRANCH_EQ with a set of values here.
_MASKED = 30  # ONNX Runtime compares so many values, up to this one, as they are.


@dataclass(frozen=True, eq=False)
class OnnxNodes:
    """The nodes of all trees; the first one of a tree is its root.

    ``trees`` and ``numbers`` name a node; ``trues`` and ``falses`` are the numbers of its children. ``values``: float64
    [nodes], what a feature is compared with. ``tracks``: whether NaN goes to the true child whatever the comparison
    says; it may be empty. ``members``: the values of a BRANCH_EQ with a set; so may it.
    """

    trees: Sequence[int]
    numbers: Sequence[int]
    features: Sequence[int]
    modes: Sequence[str]
    values: NDArray[np.float64]
    trues: Sequence[int]
    falses: Sequence[int]
    tracks: Sequence[int]
    members: Sequence[Sequence[float] | None] = ()


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
    the value. It is empty for float32, where the first ``features`` columns are the features. ``equal``: a feature,
    whether its fraction is cut off, and sorted values, for further columns: the number of the value in them, -1 of
    another one.
    """

    ensemble: Ensemble
    ranked: tuple[tuple[int, NDArray[np.float64]], ...]
    equal: tuple[tuple[int, bool, NDArray[np.float64]], ...]


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
    sets = {i: own for i, own in enumerate(nodes.members) if own}
    members = {i: sets.get(i, [nodes.values[i]]) for i in unordered}
    keys = {i: (nodes.features[i], i in sets and _is_truncated(sets[i])) for i in unordered}
    cuts = _collect_values((nodes.features[i], [thresholds[i]]) for i in ordered) if dtype == "float64" else {}
    equal = _collect_values((keys[i], members[i]) for i in unordered)
    columns = np.array(nodes.features, np.int32)
    if cuts:
        numbers = {feature: number for number, feature in enumerate(cuts)}
        thresholds = thresholds.copy()
        for i in ordered:
            feature = nodes.features[i]
            thresholds[i] = np.searchsorted(cuts[feature], thresholds[i])
            columns[i] = numbers[feature]
    first = len(cuts) if dtype == "float64" else features
    places = {key: first + number for number, key in enumerate(equal)}
    categories = {}
    for i in unordered:
        columns[i] = places[keys[i]]
        categories[i] = frozenset(np.searchsorted(equal[keys[i]], members[i]).tolist())
    trees = _link_nodes(nodes, columns, round_down(thresholds), categories)
    grouped, groups = _place_leaves(nodes, weights, trees)
    names = tuple(f"f{i}" for i in range(first + len(equal)))
    ensemble = Ensemble(
        grouped, groups, names, weights.bases, dtype, "identity", True, len(grouped) if weights.mean else 1
    )
    return OnnxTrees(ensemble, tuple(cuts.items()), tuple((*key, values) for key, values in equal.items()))


def _is_truncated(members: Sequence[float]) -> bool:
    """Say whether ONNX Runtime cuts off the fraction of what it looks up in a set, which the specification does not."""
    return len(members) > _MASKED or not 0 <= min(members) <= max(members) <= _MASKED


def _collect_values(compared: Iterable[tuple[Any, Sequence[float]]]) -> dict[Any, NDArray[np.float64]]:
    """Return by feature, or another key, the sorted values that it is compared with."""
    sets: dict[Any, set[float]] = {}
    for key, values in compared:
        sets.setdefault(key, set()).update(map(float, values))
    return {key: np.array(sorted(own), np.float64) for key, own in sets.items()}


def convert_tree_ensemble(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of TreeEnsembleRegressor, and ``nodes_members``, for TreeEnsemble's. Raises ImportModelError."""
    names = ["featureids", "modes", "splits", "truenodeids", "trueleafs", "falsenodeids", "falseleafs"]
    features, numbers, splits, trues, true_leaves, falses, false_leaves = (
        np.asarray(attributes[f"nodes_{name}"]).tolist() for name in names
    )
    modes = [_NUMBERED[mode] if mode <= _MEMBER else f"mode {mode}" for mode in numbers]
    tracks = attributes.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    sets = _split_members(attributes.get("membership_values", ()), numbers)
    nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[Any, ...]] = []
    for tree, root in enumerate(attributes["tree_roots"]):
        is_leaf = true_leaves[root] and false_leaves[root] and trues[root] == falses[root]
        queue = [(trues[root], 1) if is_leaf else (root, 0)]
        for place, (node, is_leaf) in enumerate(queue):  # It grows.
            if node < 0 or len(queue) > 2 * len(modes) + 1:
                raise ImportModelError("A tree of the ONNX model is not one: a child is negative, or its own ancestor.")
            if is_leaf:
                leaves.append((tree, place, attributes["leaf_targetids"][node], attributes["leaf_weights"][node]))
                nodes.append((tree, place, 0, _LEAF, 0.0, 0, 0, 0, None))
            else:
                own = (features[node], modes[node], splits[node], len(queue), len(queue) + 1, tracks[node])
                nodes.append((tree, place, *own, sets.get(node)))
                queue += [(trues[node], true_leaves[node]), (falses[node], false_leaves[node])]
    names = ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids"]
    names = [f"nodes_{name}" for name in (*names, "missing_value_tracks_true", "members")]
    names += [f"target_{name}" for name in ("treeids", "nodeids", "ids", "weights")]
    return dict(zip(names, (*zip(*nodes, strict=True), *zip(*leaves, strict=True)), strict=True))


def _split_members(values: Any, modes: Sequence[int]) -> dict[int, list[float]]:
    """Return the sets, each of which ends with NaN, by node of BRANCH_MEMBER: they have the order of these nodes."""
    members, owners = np.asarray(values, np.float64), [i for i, mode in enumerate(modes) if mode == _MEMBER]
    parts = [part[~np.isnan(part)].tolist() for part in np.split(members, np.flatnonzero(np.isnan(members)) + 1)]
    sets = [part for part in parts if part]
    if len(sets) != len(owners):
        raise ImportModelError(f"membership_values of the ONNX model has {len(sets)} sets for {len(owners)} nodes.")
    return dict(zip(owners, sets, strict=True))


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
