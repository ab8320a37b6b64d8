"""An ensemble of decision trees, whatever file it comes from.

A node sends a row to its left child if ``x[feature] <= threshold``, or, of a category, if that is in ``categories``.
XGBoost's ``x < threshold`` is the same as ``x <= the float32 before threshold``, for every float32 ``x``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from builder.base.errors import ImportModelError

Missing = Literal["none", "nan", "zero"]
"""The values of a feature that are missing at a node: NaN; NaN and what LightGBM takes for zero; or none, where NaN
counts as zero."""

Transform = Literal["identity", "sigmoid", "softmax", "exp", "one_against_all", "log1p_exp"]
"""The function that makes answers of an ensemble's sums."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree. A child that is negative is leaf ``~child``; a tree without nodes is one leaf.

    ``features``, ``lefts``, ``rights``: int32 [nodes]. ``thresholds``: float32 [nodes]. ``missing_left``: bool [nodes].
    ``categories``: of the nodes that compare categories, those that go left. ``leaves``: float64 [leaves, width], where
    every leaf adds to ``width`` outputs. ``numbers``: int32 [leaves], what the framework calls them, where it is not
    0, 1, 2 and so on.
    """

    features: NDArray[np.int32]
    thresholds: NDArray[np.float32]
    lefts: NDArray[np.int32]
    rights: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    missing: tuple[Missing, ...]
    leaves: NDArray[np.float64]
    categories: dict[int, frozenset[int]]
    numbers: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        """Raise ImportModelError unless every node and leaf but the root is the child of one node."""
        nodes, leaves = len(self.features), len(self.leaves)
        children = np.concatenate([self.lefts, self.rights])
        seen = np.bincount(np.where(children < 0, nodes + ~children, children), minlength=nodes + leaves)
        single = nodes + 1 == leaves == len(seen) - nodes and seen[0] == 0 and (seen[1:] == 1).all()
        if not single or not self._reaches_all():
            raise ImportModelError("A tree of the ensemble is not one: a node has no parent, or several.")

    def _reaches_all(self) -> bool:
        reached, waiting = 0, [0] if len(self.features) else [-1]
        while waiting and reached <= len(self.features) + len(self.leaves):
            node = waiting.pop()
            reached += 1
            if node >= 0:
                waiting += [int(self.lefts[node]), int(self.rights[node])]
        return reached == len(self.features) + len(self.leaves)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees whose leaves are added up, in their order, in ``dtype``.

    ``groups``: for each tree, the first output that it adds to. ``bases``: what each output's sum begins with, or ends
    with if ``base_last``. ``divisor``: the sum is divided by it. ``slope``: of ``sigmoid``, the factor of the sum.
    ``categories``: the names of a feature's categories in the order of their numbers, where the file has them.
    ``truncates``: whether a number between -1 and 0 is category 0, rather than none.
    """

    trees: tuple[Tree, ...]
    groups: tuple[int, ...]
    features: tuple[str, ...]
    bases: tuple[float, ...]
    dtype: Literal["float32", "float64"]
    transform: Transform
    base_last: bool = False
    divisor: int = 1
    slope: float = 1.0
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    truncates: bool = False


def number_nodes(is_leaf: NDArray[np.bool_], is_inner: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number that Tree has for each node of one list of inner nodes and leaves: ``~leaf`` for a leaf."""
    return np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(is_inner) - 1)


def round_down(thresholds: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 that is not above each threshold: no float32 lies between the two."""
    exact = np.asarray(thresholds, np.float64)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    return np.where(rounded.astype(np.float64) > exact, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def draw_rows(ensemble: Ensemble, count: int) -> NDArray[np.float32]:
    """Return rows [count, features] that differ in where they go: values between thresholds, and missing ones.

    They are the same every time. None is at a threshold, where an input's rounding decides.
    """
    random = np.random.Generator(np.random.PCG64(len(ensemble.trees)))
    rows = random.standard_normal((count, len(ensemble.features))).astype(np.float32)
    for feature, (thresholds, categories, missing) in _list_cuts(ensemble).items():
        if categories:
            values = np.arange(max(categories) + 2) + 0.5  # The fraction is cut off.
        else:
            cuts = np.unique(np.clip(np.array(thresholds, np.float64), -1e37, 1e37))
            wide = np.diff(cuts) > _NARROW * np.abs(cuts[1:])
            values = np.concatenate([cuts[:1] - 1, ((cuts[:-1] + cuts[1:]) / 2)[wide], cuts[-1:] + 1])
        rows[:, feature] = random.choice(values, count).astype(np.float32)
        if missing:
            rows[random.random(count) < _MISSING_SHARE, feature] = np.nan
    return rows


_MISSING_SHARE = 0.1
_NARROW = 1e-5
"""A gap between thresholds, in terms of the upper one, in whose middle a value's rounding may decide."""


def _list_cuts(ensemble: Ensemble) -> dict[int, tuple[list[float], set[int], bool]]:
    """Return of each feature in a tree its thresholds, its categories, and whether NaN is a missing value."""
    cuts: dict[int, tuple[list[float], set[int], bool]] = {}
    for tree in ensemble.trees:
        for node, (feature, threshold) in enumerate(zip(tree.features.tolist(), tree.thresholds.tolist(), strict=True)):
            thresholds, categories, missing = cuts.get(feature, ([], set(), False))
            thresholds.append(threshold)
            categories |= tree.categories.get(node, frozenset())
            cuts[feature] = thresholds, categories, missing or tree.missing[node] != "none"
    return cuts


def measure_depth(tree: Tree) -> int:
    """Return the most nodes on the way to a leaf."""
    depth, level = 0, np.zeros(min(1, len(tree.features)), np.int64)
    while len(level):
        children = np.concatenate([tree.lefts[level], tree.rights[level]])
        level, depth = children[children >= 0], depth + 1
    return depth
