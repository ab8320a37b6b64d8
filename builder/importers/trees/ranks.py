"""Trees over ranks: every feature replaced by a small number, so that a node is one comparison of small numbers.

The rank of a value is the number of its column's thresholds below it, so that ``x <= thresholds[r]`` if and only if
``rank <= r``. A column is a feature together with what a missing value of it is: a missing value has the rank 0 where
it goes left, and the largest where it goes right. A column of categories has the rank 0 for those that go left, 1 for
all others. Each set of categories is such a column, which may be thousands: their ranks are bits that are stored side
by side for each category, so that one row of bits is all that a value needs. A feature with more thresholds than ranks
has several columns, each with a part of them: a value beyond a part has the part's first or last rank. (RapidScorer:
https://doi.org/10.1145/3219819.3219857 compares such ranks of many rows at once.)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Tree, measure_depth

LARGE = 256
"""The nodes from which on each row walks down a tree alone, but for its first nodes: the cost of a block grows with
nodes, that of a walk with depth. A smaller tree's leaves have numbers of one byte."""

_TOP = 63
"""CF_TOP in runtime/trees/trees.h."""

_JOINED = 3
"""CF_JOINED in runtime/trees/trees.h: the fewest levels of a complete tree."""

_SPARSE = 4
"""A tree is made complete if it then has at most so many leaves for each of its own."""

_SMALL, _COMPLETE, _LARGE = range(3)
"""cf_tree_kind in runtime/trees/trees.h."""

_LANES = 16
"""The fewest numbers of a column's thresholds, which the kernel loads as a vector."""

_BYTE = 255
_MOST = (1 << 16) - 1
"""The most columns, and the most thresholds of one, of two-byte ranks."""

_KINDS: dict[Missing, int] = {"none": 0, "nan": 1, "zero": 2}
"""cf_missing in runtime/trees/trees.h."""

_TRUNCATED, _NOT_NEGATIVE = 1, 2
"""cf_categories in runtime/trees/trees.h."""


@dataclass(frozen=True, eq=False)
class PackedTrees:
    """The arrays of ``cf_trees_data`` in runtime/trees/trees.h.

    ``columns``: int32 [columns, 7]. ``thresholds``: the bits of float32 as int32, since compilers change those of a
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
        """The most nodes of a tree that a block passes together: all of a small one, the first of another."""
        nodes, kinds = self.trees[:, 0], self.trees[:, 1]
        return int(np.where(kinds == _SMALL, nodes, np.minimum(nodes, _TOP)).max(initial=0))


def pack_trees(ensemble: Ensemble, *, numbered: bool = False) -> PackedTrees:
    """Return what the kernel reads of an ensemble. Raises ImportModelError if it has too many columns.

    ``numbered``: whether the kernel tells the leaves' numbers, which those of a complete tree are not.
    """
    most = _MOST if any(len(tree.features) >= LARGE for tree in ensemble.trees) else _BYTE
    columns, thresholds, ranked = _rank_nodes(ensemble, most)
    if most == _BYTE and len(columns) > _BYTE:  # Many columns cost more time than ranks of two bytes.
        columns, thresholds, ranked = _rank_nodes(ensemble, _MOST)
    words = int(ranked[:, 1].max(initial=0)) >= _BYTE
    if len(columns) > _MOST:
        raise ImportModelError(f"The ensemble has {len(columns)} columns: {_MOST} can run.")
    small, large, trees, leaves = [np.empty((0, 4), np.int64)], [np.empty((0, 2), np.int32)], [], []
    ends, leaf = {_SMALL: 0, _COMPLETE: 0}, 0
    own = np.split(ranked, np.cumsum([len(tree.features) for tree in ensemble.trees])[:-1])
    for tree, group, nodes in zip(ensemble.trees, ensemble.groups, own, strict=True):
        packed = _pack_tree(tree, nodes, numbered)
        kept = min(packed.kind, _COMPLETE)  # Large trees' slots are beside complete ones'.
        trees.append((packed.nodes, packed.kind, ends[kept], leaf, group))
        (small, large)[kept].append(packed.slots)
        leaves.append(packed.leaves)
        ends[kept] += len(packed.slots)
        leaf += len(packed.leaves)
    bases = np.zeros(len(ensemble.bases)) if ensemble.base_last else np.array(ensemble.bases)
    dtype, slots = np.dtype(ensemble.dtype), np.concatenate(small)
    wide = words or int(slots[:, [0, 2, 3]].max(initial=0)) > _BYTE
    return PackedTrees(
        columns,
        thresholds,
        np.array(trees, np.int32).reshape(-1, 5),
        slots.astype(np.uint16 if wide else np.uint8).reshape(-1).view(np.uint8),
        np.concatenate(large),
        np.concatenate(leaves).astype(dtype),
        bases.astype(dtype),
        words,
        wide,
    )


def _rank_nodes(ensemble: Ensemble, most: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the columns of up to ``most`` thresholds, all thresholds, and each node's column and rank [nodes, 2]."""
    keys, cuts, sets = _key_nodes(ensemble)
    order = np.lexsort([cuts, *keys[::-1]])
    keys, cuts = keys[:, order], cuts[order]
    first = np.arange(len(order)) == 0
    starts = first | (keys != np.roll(keys, 1, axis=1)).any(0)
    differs = starts | (cuts != np.roll(cuts, 1))
    index = np.cumsum(differs) - 1
    index -= index[starts][np.cumsum(starts) - 1]
    begins = differs & (index % most == 0)
    ranked = np.empty((len(order), 2), np.int64)
    ranked[order] = np.column_stack([np.cumsum(begins) - 1, index % most])
    sizes = np.array([*map(_measure_categories, sets)])[keys[3]]
    described = np.stack([*keys[:3], sizes])
    alike = ~first & (sizes > 0) & (described == np.roll(described, 1, axis=1)).all(0)
    columns: list[tuple[int, ...]] = []
    words: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]
    at = 0
    for begin, end in itertools.pairwise([*np.flatnonzero(begins & ~alike).tolist(), len(order)]):
        feature, kind, left, number = keys[:, begin].tolist()
        if number:
            own = [sets[i] for i in np.unique(keys[3, begin:end])]
            compared = _TRUNCATED if ensemble.truncates else _NOT_NEGATIVE
            count, values = _pack_categories(own, bool(left))
            columns += [(feature, kind, left, compared, count, at, len(own))] * len(own)
        else:
            values = _lay_out_thresholds(cuts[begin:end][differs[begin:end]])
            columns.append((feature, kind, left, 0, len(values), at, 1))
            values = np.pad(values, (0, max(0, _LANES - len(values))))
        words.append(values)
        at += len(values)
    return np.array(columns, np.int32).reshape(-1, 7), np.concatenate(words).view(np.int32), ranked


def _key_nodes(ensemble: Ensemble) -> tuple[NDArray[np.int64], NDArray[np.float32], list[frozenset[int]]]:
    """Return what tells the columns of nodes apart [4, nodes], and the nodes' thresholds.

    These are the feature, what is missing and whether that goes left, and the number of the categories that go left in
    the list that is returned as well, 0 for thresholds.
    """
    trees = ensemble.trees
    kinds = np.array([_KINDS[kind] for tree in trees for kind in tree.missing], np.int64)
    features = np.concatenate([tree.features for tree in trees])
    lefts = np.concatenate([tree.missing_left for tree in trees]) & (kinds != _KINDS["none"])
    sets = sorted(dict.fromkeys(own for tree in trees for own in tree.categories.values()), key=_measure_categories)
    numbers = {categories: number for number, categories in enumerate(sets, 1)}
    chosen = np.zeros(len(kinds), np.int64)
    begin = 0
    for tree in trees:
        for node, categories in tree.categories.items():
            chosen[begin + node] = numbers[categories]
        begin += len(tree.features)
    cuts = np.where(chosen > 0, np.float32(0), np.concatenate([tree.thresholds for tree in trees]))
    return np.stack([features, kinds, lefts, chosen]).astype(np.int64), cuts, [frozenset(), *sets]


def _lay_out_thresholds(thresholds: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Return the bits of sorted thresholds as the kernel searches them.

    They are a binary tree in an array (Eytzinger's layout, https://arxiv.org/abs/1509.05053): the middle is number 1,
    and behind number i are 2i and 2i + 1, the middles of the halves. Infinities fill up the last level.
    """
    levels = len(thresholds).bit_length()
    places = np.arange(1 << levels)
    places[0] = 1  # The number 0 is not used.
    level = np.floor(np.log2(places)).astype(np.int64)
    order = ((2 * (places - (1 << level)) + 1) << (levels - 1 - level)) - 1
    filled = np.pad(thresholds, (0, len(order) - 1 - len(thresholds)), constant_values=np.inf)
    laid_out: NDArray[np.float32] = filled[order]
    return laid_out.view(np.uint32)


def _measure_categories(categories: frozenset[int]) -> int:
    """Return the bits of the number of categories up to the last: sets where it is the same share their bytes."""
    return (max(categories, default=-1) + 1).bit_length()


def _pack_categories(sets: list[frozenset[int]], missing_left: bool) -> tuple[int, NDArray[np.uint32]]:
    """Return how many categories may be in one of ``sets``, and the bits of those that go right, a row for each.

    Before these rows are one for missing values, and one for those that are in none of the sets.
    """
    count = max(max(categories, default=-1) for categories in sets) + 1
    bits = np.full((2 + count, -(-len(sets) // 8)), 255, np.uint8)
    bits[0] *= not missing_left
    for column, categories in enumerate(sets):
        bits[2 + np.array(sorted(categories), np.int64), column // 8] ^= np.uint8(1 << column % 8)
    return count, np.pad(bits.reshape(-1), (0, -bits.size % 4)).view(np.uint32)


class _PackedTree(NamedTuple):
    """A tree of ``nodes`` inner nodes, of a ``cf_tree_kind``, with its slots and leaves [leaves, width]."""

    kind: int
    nodes: int
    slots: NDArray[Any]
    leaves: NDArray[np.float64]


def _pack_tree(tree: Tree, ranked: NDArray[np.int64], numbered: bool) -> _PackedTree:
    count, levels = len(tree.features), measure_depth(tree)
    if not numbered and levels >= _JOINED and 1 << levels <= _SPARSE * len(tree.leaves):
        return _complete_tree(tree, ranked, levels)
    if count >= LARGE:
        return _PackedTree(_LARGE, count, _make_large_slots(tree, ranked), tree.leaves)
    return _PackedTree(_SMALL, count, _make_small_slots(tree, ranked), tree.leaves)


def _make_small_slots(tree: Tree, ranked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fields of the slots of a small tree: its nodes, each behind its parent, and then its leaves."""
    count, order = len(tree.features), _order_nodes(tree)
    slots = np.empty(count, np.int64)
    slots[order] = np.arange(count)
    children = [np.where(side < 0, count + ~side, slots[np.maximum(side, 0)]) for side in (tree.lefts, tree.rights)]
    itself = np.arange(count, count + len(tree.leaves))
    leaves = np.column_stack([np.zeros((len(itself), 2), np.int64), itself, itself])
    return np.concatenate([np.column_stack([ranked, *children])[order], leaves])


def _complete_tree(tree: Tree, ranked: NDArray[np.int64], levels: int) -> _PackedTree:
    """Return a complete tree of ``levels``, two ``cf_complete_slot`` in a row: both sides of a leaf are that leaf."""
    nodes = np.zeros(1, np.int64)
    slots = []
    for _ in range(levels):
        inner = nodes >= 0
        slots.append(np.where(inner[:, None], ranked[np.maximum(nodes, 0)], 0))
        sides = [np.where(inner, side[np.maximum(nodes, 0)], nodes) for side in (tree.lefts, tree.rights)]
        nodes = np.column_stack(sides).reshape(-1)
    pairs = np.concatenate([*slots, np.zeros((1, 2), np.int64)]).astype(np.uint16)
    rows = pairs.reshape(-1).view(np.int32).reshape(-1, 2)
    return _PackedTree(_COMPLETE, len(nodes) - 1, rows, tree.leaves[~nodes])


def _make_large_slots(tree: Tree, ranked: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the ``cf_large_slot`` of a large tree, in two halves: the children of a node are beside each other.

    The nodes with the longest ways to a leaf have theirs first: a block passes these, and then all ways are short.
    """
    order, children = _order_nodes(tree), np.column_stack([tree.lefts, tree.rights]).astype(np.int64)
    heights, sides = [0] * (len(order) + len(tree.leaves)), children.tolist()  # Leaves are numbered from the end.
    for node in order[::-1].tolist():
        heights[node] = 1 + max(heights[child] for child in sides[node])
    order = order[np.argsort(-np.array(heights)[order], kind="stable")]
    firsts = np.empty(len(order), np.int64)
    firsts[order] = 1 + 2 * np.arange(len(order))
    nodes = np.append(0, children[order])
    inner = nodes >= 0
    rows = np.zeros((len(nodes), 3), np.int64)
    rows[:, 2] = nodes
    rows[inner] = np.column_stack([ranked[nodes[inner]], firsts[nodes[inner]]])
    words = rows[:, 0] | rows[:, 1] << 16
    return np.column_stack([words.astype(np.uint32).view(np.int32), rows[:, 2].astype(np.int32)])


def _order_nodes(tree: Tree) -> NDArray[np.int64]:
    """Return the nodes level by level: the kernel passes masks of rows down, and each waits for its parent's."""
    order = [np.empty(0, np.int64)]
    level = np.zeros(min(len(tree.features), 1), np.int64)
    while len(level):
        order.append(level)
        level = np.column_stack([tree.lefts[level], tree.rights[level]]).reshape(-1).astype(np.int64)
        level = level[level >= 0]
    return np.concatenate(order)
