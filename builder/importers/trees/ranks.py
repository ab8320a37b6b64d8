"""Trees over ranks: every feature replaced by a small number, so that a node is one comparison of small numbers.

The rank of a value is the number of its column's thresholds below it, so that ``x <= thresholds[r]`` if and only if
``rank <= r``. A column is a feature together with what a missing value of it is: a missing value has the rank 0 where
it goes left, and the largest where it goes right. A column of categories has the rank 0 for those that go left, 1 for
all others. (RapidScorer: https://doi.org/10.1145/3219819.3219857 compares such ranks of many rows at once.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Tree

LARGE = 512
"""The nodes from which on each row walks down a tree alone: the cost of a block grows with nodes, that of a walk with
depth. See docs/notes/trees.md."""

_BYTE = 255
_MOST = (1 << 16) - 1
"""The most columns, and the most thresholds of one."""

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
class PackedTrees:
    """The arrays of ``cf_trees_data`` in runtime/trees/trees.h.

    ``columns``: int32 [columns, 6]. ``thresholds``: the bits of float32 as int32, since compilers change those of a
    signalling NaN, as a word of categories may be. ``trees``: int32 [trees, 5]. ``small``: uint8 [bytes], the slots of
    small trees, ``wide`` or not. ``large``: int32 [slots, 2]. ``leaves``: [leaves, width], and ``bases`` [outputs], of
    the ensemble's dtype. ``words``: whether a rank has two bytes.
    """

    columns: NDArray[np.int32]
    thresholds: NDArray[np.int32]
    trees: NDArray[np.int32]
    small: NDArray[np.uint8]
    large: NDArray[np.int32]
    leaves: NDArray[np.float32] | NDArray[np.float64]
    bases: NDArray[np.float32] | NDArray[np.float64]
    words: bool
    wide: bool

    @property
    def most_nodes(self) -> int:
        """The nodes of the largest small tree."""
        return max((int(nodes) for nodes, large, *_ in self.trees if not large), default=0)


def pack_trees(ensemble: Ensemble) -> PackedTrees:
    """Return what the kernel reads of an ensemble. Raises ImportModelError if it has too many columns or thresholds."""
    cuts: dict[Column, set[float]] = {}
    for tree in ensemble.trees:
        for column, threshold in zip(_list_columns(tree), tree.thresholds.tolist(), strict=True):
            cuts.setdefault(column, set()).add(0.0 if column.categories is not None else threshold)
    thresholds = {column: np.array(sorted(own), np.float32) for column, own in cuts.items()}
    if (most := max([len(thresholds), *map(len, thresholds.values())])) >= _MOST:
        raise ImportModelError(f"The ensemble has {most} columns or thresholds of one column: {_MOST - 1} can run.")
    numbers = {column: number for number, column in enumerate(thresholds)}
    small, larges, trees, leaf = [np.empty((0, 4), np.int64)], [np.empty((0, 2), np.int32)], [], 0
    for tree, group in zip(ensemble.trees, ensemble.groups, strict=True):
        ranked, large = _rank_nodes(tree, thresholds, numbers), len(tree.features) >= LARGE
        first = sum(map(len, larges if large else small))
        trees.append((len(tree.features), large, first, leaf, group))
        if large:
            larges.append(_make_large_slots(tree, ranked))
        else:
            small.append(_make_small_slots(tree, ranked))
        leaf += len(tree.leaves)
    columns, packed = _pack_columns(thresholds, ensemble.truncates)
    bases = np.zeros(len(ensemble.bases)) if ensemble.base_last else np.array(ensemble.bases)
    dtype, slots = np.dtype(ensemble.dtype), np.concatenate(small)
    words = max(map(len, thresholds.values()), default=0) > _BYTE
    wide = words or int(slots[:, [0, 2, 3]].max(initial=0)) > _BYTE
    return PackedTrees(
        columns,
        packed,
        np.array(trees, np.int32).reshape(-1, 5),
        slots.astype(np.uint16 if wide else np.uint8).reshape(-1).view(np.uint8),
        np.concatenate(larges),
        np.concatenate([tree.leaves for tree in ensemble.trees]).astype(dtype),
        bases.astype(dtype),
        words,
        wide,
    )


def _pack_columns(
    thresholds: Mapping[Column, NDArray[np.float32]], truncates: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return ``cf_tree_column`` [columns, 6], and the bits of all of their thresholds.

    A column of categories has bits in the place of thresholds, 32 in a word, of those that go left.
    """
    columns: list[tuple[int, ...]] = []
    words: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
    begin = 0
    for column, own in thresholds.items():
        if column.categories is None:
            kind, size = 0, 1 << max(0, len(own) - 1).bit_length()
            values = np.pad(own, (0, size - len(own)), constant_values=np.inf).view(np.uint32)
        else:
            kind = _TRUNCATED if truncates else _NOT_NEGATIVE
            values = np.zeros(max(column.categories, default=0) // 32 + 1, np.uint32)
            for category in column.categories:
                values[category // 32] |= np.uint32(1 << category % 32)
        columns.append((column.feature, _KINDS[column.missing], column.missing_left, kind, len(values), begin))
        words.append(values)
        begin += len(values)
    return np.array(columns, np.int32).reshape(-1, 6), np.concatenate(words).view(np.int32)


def _list_columns(tree: Tree) -> list[Column]:
    columns = []
    for node, (feature, missing, left) in enumerate(
        zip(tree.features.tolist(), tree.missing, tree.missing_left.tolist(), strict=True)
    ):
        columns.append(Column(feature, missing, left and missing != "none", tree.categories.get(node)))
    return columns


def _rank_nodes(
    tree: Tree, thresholds: Mapping[Column, NDArray[np.float32]], numbers: Mapping[Column, int]
) -> NDArray[np.int64]:
    """Return the column and the rank of each node, [nodes, 2]."""
    return np.array(
        [
            (numbers[column], 0 if column.categories is not None else np.searchsorted(thresholds[column], threshold))
            for column, threshold in zip(_list_columns(tree), tree.thresholds, strict=True)
        ],
        np.int64,
    ).reshape(-1, 2)


def _make_small_slots(tree: Tree, ranked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fields of the slots of a small tree: its nodes, each behind its parent, and then its leaves."""
    count, order = len(tree.features), _order_nodes(tree)
    slots = np.empty(count, np.int64)
    slots[order] = np.arange(count)
    children = [np.where(side < 0, count + ~side, slots[np.maximum(side, 0)]) for side in (tree.lefts, tree.rights)]
    itself = np.arange(count, count + len(tree.leaves))
    leaves = np.column_stack([np.zeros((len(itself), 2), np.int64), itself, itself])
    return np.concatenate([np.column_stack([ranked, *children])[order], leaves])


def _make_large_slots(tree: Tree, ranked: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the ``cf_large_slot`` of a large tree, in two halves: the children of a node are beside each other."""
    rows = np.zeros((2 * len(tree.features) + 1, 3), np.int64)
    end, waiting = 1, [(0, 0)]
    for node, slot in waiting:  # Level by level: the first levels of a tree share cache lines.
        if node < 0:
            rows[slot] = 0, 0, node
            continue
        rows[slot] = *ranked[node], end
        waiting += [(int(tree.lefts[node]), end), (int(tree.rights[node]), end + 1)]
        end += 2
    words = rows[:, 0] | rows[:, 1] << 16
    return np.column_stack([words.astype(np.uint32).view(np.int32), rows[:, 2].astype(np.int32)])


def _order_nodes(tree: Tree) -> list[int]:
    """Return the nodes level by level: the kernel passes masks of rows down, and each waits for its parent's."""
    order = [0] if len(tree.features) else []
    for node in order:
        order += [int(child) for child in (tree.lefts[node], tree.rights[node]) if child >= 0]
    return order
