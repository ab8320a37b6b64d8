"""Trees over ranks: every feature replaced by a small number, so that a node is one comparison of small numbers.

The rank of a value is the number of its column's thresholds below it, so that ``x <= thresholds[r]`` if and only if
``rank <= r``. A column is a feature together with what a missing value of it is: a missing value has the rank 0 where
it goes left, and the largest where it goes right. A column of categories has the rank 0 for those that go left, 1 for
all others. (RapidScorer: https://doi.org/10.1145/3219819.3219857 compares such ranks of many rows at once.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Tree

MOST_SLOTS = 1 << 16

_KINDS: dict[Missing, int] = {"none": 0, "nan": 1, "zero": 2}
"""cf_missing in runtime/trees/trees.h."""

_TRUNCATED, _NOT_NEGATIVE = 1, 2
"""cf_categories in runtime/trees/trees.h."""


@dataclass(frozen=True)
class Column:
    """A feature and what a missing value of it is; ``categories``: those that go left, of a column of categories."""

    feature: int
    missing: Missing
    missing_left: bool
    categories: frozenset[int] | None = None


@dataclass(frozen=True, eq=False)
class RankedTrees:
    """The trees of an ensemble over ranks.

    ``thresholds``: float32, sorted, for each of ``columns``. ``nodes``: uint16 [nodes, 4], with the column, the rank,
    and the slots of the left and the right child; the slots of a tree are its nodes and then its leaves. ``counts``:
    int32 [trees], the nodes of each tree. ``leaves``: [leaves, width], in the order of the trees. ``truncates``: see
    Ensemble.
    """

    columns: tuple[Column, ...]
    thresholds: tuple[NDArray[np.float32], ...]
    nodes: NDArray[np.uint16]
    counts: NDArray[np.int32]
    leaves: NDArray[np.float64]
    truncates: bool

    @property
    def rank_bytes(self) -> int:
        """The bytes of a rank: 1 if no column has more than 255 thresholds."""
        return 1 if max(map(len, self.thresholds), default=0) <= np.iinfo(np.uint8).max else 2


def pack_columns(trees: RankedTrees) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return what the kernel reads of columns, as ``cf_tree_column`` [columns, 6], and the bits of their thresholds.

    A column of categories has a bit of each that goes left in the place of thresholds, 32 in a word. They are integers,
    since compilers change the bits of a float32 that is a signalling NaN.
    """
    columns: list[tuple[int, ...]] = []
    words: list[NDArray[np.uint32]] = []
    for column, thresholds in zip(trees.columns, trees.thresholds, strict=True):
        values = thresholds.view(np.uint32)
        if column.categories is not None:
            values = np.zeros(max(column.categories, default=0) // 32 + 1, np.uint32)
            for category in column.categories:
                values[category // 32] |= np.uint32(1 << category % 32)
        begin = sum(map(len, words))
        kind = 0 if column.categories is None else _TRUNCATED if trees.truncates else _NOT_NEGATIVE
        columns.append((column.feature, _KINDS[column.missing], column.missing_left, kind, len(values), begin))
        words.append(values)
    packed = np.concatenate([np.empty(0, np.uint32), *words]).view(np.int32)
    return np.array(columns, np.int32).reshape(-1, 6), packed


@dataclass(frozen=True, eq=False)
class PackedTrees:
    """The arrays of ``cf_trees``, in the order of its fields."""

    arrays: tuple[NDArray[np.generic], ...]


def pack_trees(ensemble: Ensemble) -> PackedTrees:
    """Return what the kernel reads of an ensemble. Raises ImportModelError if a tree or a column is too large."""
    ranked, dtype = rank_trees(ensemble), np.dtype(ensemble.dtype)
    columns, thresholds = pack_columns(ranked)
    groups = np.array(ensemble.groups, np.int32)
    bases = np.zeros(len(ensemble.bases)) if ensemble.base_last else np.array(ensemble.bases)
    return PackedTrees(
        (columns, thresholds, ranked.nodes, ranked.counts, groups, ranked.leaves.astype(dtype), bases.astype(dtype))
    )


def rank_trees(ensemble: Ensemble) -> RankedTrees:
    """Return the trees over ranks. Raises ImportModelError if a tree or a column is too large."""
    cuts: dict[Column, set[float]] = {}
    for tree in ensemble.trees:
        for column, threshold in zip(_list_columns(tree), tree.thresholds.tolist(), strict=True):
            cuts.setdefault(column, set()).add(0.0 if column.categories is not None else threshold)
    thresholds = {column: np.array(sorted(cuts[column]), np.float32) for column in cuts}
    numbers = {column: number for number, column in enumerate(thresholds)}
    largest = max(
        [0, len(numbers), *(len(cuts) for cuts in thresholds.values()), *(2 * len(t.leaves) for t in ensemble.trees)]
    )
    if largest >= MOST_SLOTS:
        raise ImportModelError(f"The ensemble has {largest} columns, thresholds or slots: {MOST_SLOTS - 1} can run.")
    nodes = [_rank_nodes(tree, thresholds, numbers) for tree in ensemble.trees]
    return RankedTrees(
        tuple(thresholds),
        tuple(thresholds.values()),
        np.concatenate([np.empty((0, 4), np.uint16), *nodes]),
        np.array([len(tree.features) for tree in ensemble.trees], np.int32),
        np.concatenate([tree.leaves for tree in ensemble.trees]),
        ensemble.truncates,
    )


def _list_columns(tree: Tree) -> list[Column]:
    columns = []
    for node, (feature, missing, left) in enumerate(
        zip(tree.features.tolist(), tree.missing, tree.missing_left.tolist(), strict=True)
    ):
        columns.append(Column(feature, missing, left and missing != "none", tree.categories.get(node)))
    return columns


def _rank_nodes(
    tree: Tree, thresholds: dict[Column, NDArray[np.float32]], numbers: dict[Column, int]
) -> NDArray[np.uint16]:
    count = len(tree.features)
    order = _order_nodes(tree)
    slots = np.empty(count, np.int64)
    slots[order] = np.arange(count)
    columns = _list_columns(tree)
    ranks = [
        0 if column.categories is not None else np.searchsorted(thresholds[column], threshold)
        for column, threshold in zip(columns, tree.thresholds, strict=True)
    ]
    children = [np.where(side < 0, count + ~side, slots[np.maximum(side, 0)]) for side in (tree.lefts, tree.rights)]
    rows = np.stack([[numbers[column] for column in columns], ranks, *children], axis=1) if count else np.empty((0, 4))
    return rows[order].astype(np.uint16)


def _order_nodes(tree: Tree) -> list[int]:
    """Return the nodes so that each stands behind its parent, as the kernel passes masks of rows down."""
    order, waiting = [], [0] if len(tree.features) else []
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += [int(child) for child in (tree.rights[node], tree.lefts[node]) if child >= 0]
    return order
