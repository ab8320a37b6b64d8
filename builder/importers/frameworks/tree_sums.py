"""The sums of an ensemble's leaves as JAX functions: whole programs for TensorFlow, and steps of coldforge's runtime.

A function here is a composite operation (https://openxla.org/stablehlo/spec#composite), whose decomposition walks down
all trees of a row at once. ``builder/importers/frameworks/jax_program.py`` makes two programs of it: one calls the
decomposition and runs in TensorFlow; in the other, for the compiler, ``builder/runtime/trees`` takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.base.arrays import Array
from builder.importers.rewrites.custom_steps import TREE_ARRAYS, TREE_SUMS
from builder.importers.trees.ensemble import Ensemble, Tree, measure_depth
from builder.importers.trees.ranks import PackedTrees, pack_trees

_ZERO = 1e-35
"""The largest absolute value that is zero to LightGBM: kZeroThreshold of include/LightGBM/meta.h, as a float32."""

_TINY = float(np.finfo(np.float32).tiny)


def add_leaves(ensemble: Ensemble, x: Any) -> Any:
    """Return the sums [rows, outputs], in the ensemble's dtype and order, for float32 ``x`` [rows, features].

    They include the bases and the divisor; ``transform_sums`` makes answers of them.
    """
    return _add_leaves(ensemble, x, False)[0]


def run_trees(ensemble: Ensemble, x: Any, numbered: bool) -> list[Any]:
    """Return the answers to ``x`` and, if ``numbered``, the numbers that the framework has for the rows' leaves.

    These are int32 [rows, trees].
    """
    sums, *numbers = _add_leaves(ensemble, x, numbered)
    return [transform_sums(ensemble, sums), *numbers]


def _add_leaves(ensemble: Ensemble, x: Any, numbered: bool) -> list[Any]:
    """Return what ``add_leaves`` does and, if ``numbered``, what ``run_trees`` does."""
    walk = _list_nodes(ensemble.trees, -1.0 if ensemble.truncates else -_TINY)
    dtype, trees = np.dtype(ensemble.dtype), ensemble.trees
    bases = np.zeros(len(ensemble.bases)) if ensemble.base_last else np.array(ensemble.bases)
    leaves = np.concatenate([tree.leaves for tree in trees]).astype(dtype)
    width = leaves.shape[1]
    groups = np.array(ensemble.groups, np.int32)
    firsts = np.cumsum([0, *(len(tree.leaves) for tree in trees)])[:-1].astype(np.int32)

    def sum_leaves(x: Any, *_: Any, config: str) -> list[Any]:
        found = walk.find_leaves(x)
        values = jnp.asarray(leaves)[found]

        def add(sums: Any, tree: tuple[Any, Any]) -> tuple[Any, None]:
            group, value = tree
            own = lax.dynamic_slice_in_dim(sums, group, width, 1)
            return lax.dynamic_update_slice_in_dim(sums, own + value, group, 1), None

        begin = jnp.broadcast_to(jnp.asarray(bases.astype(dtype)), (x.shape[0], len(bases)))
        sums = lax.scan(add, begin, (jnp.asarray(groups), jnp.swapaxes(values, 0, 1)))[0]
        return [sums, found - firsts] if numbered else [sums]

    sums, *found = _call_step(TREE_SUMS, pack_trees(ensemble, numbered=numbered), sum_leaves, x)
    if any(tree.numbers is not None for tree in trees):
        own = [np.arange(len(tree.leaves)) if tree.numbers is None else tree.numbers for tree in trees]
        found = [jnp.asarray(np.concatenate(own).astype(np.int32))[places + firsts] for places in found]
    if ensemble.divisor != 1:
        # XLA would multiply by the inverse of a constant, which rounds twice.
        sums = sums / jnp.where(jnp.isnan(sums), 1, jnp.asarray(ensemble.divisor, dtype))
    return [sums + np.array(ensemble.bases, dtype) if ensemble.base_last else sums, *found]


def transform_sums(ensemble: Ensemble, sums: Any) -> Any:
    """Return the answers of ``sums`` [rows, outputs]; a single probability becomes two, of the classes 0 and 1."""
    match ensemble.transform:
        case "sigmoid":
            ones = 1 / (1 + jnp.exp(-ensemble.slope * sums))
            return jnp.concatenate([1 - ones, ones], 1) if sums.shape[1] == 1 else ones
        case "softmax":
            return jax.nn.softmax(sums, 1)
        case "one_against_all":
            return 1 / (1 + jnp.exp(-ensemble.slope * sums))
        case "exp":
            return jnp.exp(sums)
        case "log1p_exp":
            return jnp.log1p(jnp.exp(sums))
        case "identity":
            return sums


def _call_step(name: str, packed: PackedTrees, decomposition: Callable[..., Any], x: Any) -> Any:
    arrays = [getattr(packed, array) for array in TREE_ARRAYS]
    operands = [jnp.asarray(x, jnp.float32), *arrays]
    numbers = {"most_nodes": packed.most_nodes, "words": packed.words, "wide": packed.wide}
    config = json.dumps({"operands": len(operands), **numbers})
    return lax.composite(decomposition, name)(*operands, config=config)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of all trees in one list; a child that is negative is the leaf ``~child`` of a list of all leaves."""

    roots: Array
    depth: int
    features: Array
    thresholds: Array
    lefts: Array
    rights: Array
    missing_left: Array
    nan: Array  # whether NaN is missing
    zero: Array  # whether zeros are missing, too
    category_begins: Array  # of the words below, of nodes that compare categories
    category_counts: Array  # 0 for other nodes
    category_words: Array
    lowest: float  # Categories are numbers above it.

    def find_leaves(self, x: Any) -> Any:
        """Return the leaf of each row and tree, int32 [rows, trees], for float32 ``x`` [rows, features]."""

        def go_down(_: int, places: Any) -> Any:
            node = jnp.maximum(places, 0)

            def at(array: Array) -> Any:
                return jnp.asarray(array)[node]

            value = jnp.take_along_axis(x, at(self.features), 1)
            missing = (at(self.nan) & jnp.isnan(value)) | (at(self.zero) & (jnp.abs(value) <= np.float32(_ZERO)))
            value = jnp.where(jnp.isnan(value), 0, value)
            words = at(self.category_counts)
            valid = (value > self.lowest) & (value < 32 * words)
            category = jnp.where(valid, value, 0).astype(jnp.int32)
            word = jnp.asarray(self.category_words)[at(self.category_begins) + category // 32]
            member = valid & ((word >> (category % 32).astype(jnp.uint32)) & 1 == 1)
            left = jnp.where(words > 0, member, value <= at(self.thresholds))
            left = jnp.where(missing, at(self.missing_left), left)
            return jnp.where(places < 0, places, jnp.where(left, at(self.lefts), at(self.rights)))

        first = jnp.broadcast_to(jnp.asarray(self.roots), (x.shape[0], len(self.roots)))
        return ~lax.fori_loop(0, self.depth, go_down, first)


def _list_nodes(trees: Sequence[Tree], lowest: float) -> _Nodes:
    nodes = np.cumsum([0, *(len(tree.features) for tree in trees)])[:-1]
    leaves = np.cumsum([0, *(len(tree.leaves) for tree in trees)])[:-1]

    def join(parts: Sequence[Any], dtype: Any) -> Array:
        return np.concatenate([*map(np.asarray, parts), np.zeros(1)]).astype(dtype)  # One more if no tree has a node.

    def move(children: Array, node: int, leaf: int) -> Array:
        return np.where(children < 0, children - leaf, children + node)

    sides = [
        [move(side, node, leaf) for side, node, leaf in zip(children, nodes, leaves, strict=True)]
        for children in ([tree.lefts for tree in trees], [tree.rights for tree in trees])
    ]
    missing = [kind for tree in trees for kind in tree.missing]
    words, begins, counts = _pack_categories(trees)
    return _Nodes(
        np.array([n if len(tree.features) else ~m for tree, n, m in zip(trees, nodes, leaves, strict=True)], np.int32),
        max(map(measure_depth, trees), default=0),
        join([tree.features for tree in trees], np.int32),
        _avoid_subnormals(join([tree.thresholds for tree in trees], np.float32)),
        join(sides[0], np.int32),
        join(sides[1], np.int32),
        join([tree.missing_left for tree in trees], np.bool_),
        join([[kind != "none" for kind in missing]], np.bool_),
        join([[kind == "zero" for kind in missing]], np.bool_),
        begins,
        counts,
        words,
        lowest,
    )


def _avoid_subnormals(thresholds: Array) -> Array:
    """Return thresholds that compare as the subnormal ones do with any other number: XLA takes those for zero."""
    return np.where(np.abs(thresholds) < _TINY, np.where(thresholds < 0, np.float32(-_TINY), np.float32(0)), thresholds)


def _pack_categories(trees: Sequence[Tree]) -> tuple[Array, Array, Array]:
    """Return words of 32 categories each, and for each node, with one more, their begin and number."""
    words: list[int] = []
    begins, counts = [], []
    for tree in trees:
        for node in range(len(tree.features)):
            own = tree.categories.get(node)
            size = 0 if own is None else max(own, default=0) // 32 + 1
            begins.append(len(words))
            counts.append(size)
            words += [sum(1 << category % 32 for category in own or () if category // 32 == i) for i in range(size)]
    return np.array([*words, 0], np.uint32), np.array([*begins, 0], np.int32), np.array([*counts, 0], np.int32)
