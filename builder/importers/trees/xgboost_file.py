"""XGBoost's models in JSON and UBJSON: https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Transform, Tree, number_nodes
from builder.importers.trees.ubjson import read_ubjson

_TRANSFORMS: dict[str, Transform] = {
    "reg:squarederror": "identity", "reg:absoluteerror": "identity", "reg:pseudohubererror": "identity",
    "reg:squaredlogerror": "identity", "reg:quantileerror": "identity", "binary:logitraw": "identity",
    "rank:pairwise": "identity", "rank:ndcg": "identity", "rank:map": "identity", "multi:softprob": "softmax",
    "multi:softmax": "softmax", "binary:logistic": "sigmoid", "reg:logistic": "sigmoid", "count:poisson": "exp",
    "reg:gamma": "exp", "reg:tweedie": "exp", "survival:cox": "exp", "survival:aft": "exp",
}  # fmt: skip
_NAN: Missing = "nan"
_DELETED = 2**31 - 1
"""The feature of a pruned node, which the file still has: kDeletedNodeMarker of include/xgboost/tree_model.h."""


def read_xgboost(data: bytes) -> Ensemble:
    """Return the ensemble of a file. Raises ImportModelError."""
    try:
        return _read_learner(parse_learner(data))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ImportModelError(f"This is not a model of XGBoost's that can be read ({error}).") from error


def parse_learner(data: bytes) -> Mapping[str, Any]:
    """Return the values of a file. Raises ValueError, LookupError or TypeError."""
    learner = (json.loads(data) if data.lstrip()[:2] in (b'{"', b"{\n") else read_ubjson(data))["learner"]
    return dict(learner)


def _read_learner(learner: Mapping[str, Any]) -> Ensemble:
    booster, objective = learner["gradient_booster"], str(learner["objective"]["name"])
    if booster["name"] not in ("gbtree", "dart"):
        raise ImportModelError(f"XGBoost's booster {booster['name']!r} has no trees: only gbtree and dart are read.")
    if objective not in _TRANSFORMS:
        raise ImportModelError(f"XGBoost's objective {objective!r} is not read. These are: {', '.join(_TRANSFORMS)}.")
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    parameters = learner["learner_model_param"]
    trees = model["trees"][: _count_used_trees(learner, model)]
    weights = booster.get("weight_drop") or [1.0] * len(trees)
    features = _name_features(learner, int(parameters["num_feature"]))
    count = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    return Ensemble(
        tuple(_read_tree(tree, np.float32(weight)) for tree, weight in zip(trees, weights, strict=False)),
        tuple(map(int, model["tree_info"][: len(trees)])),
        features,
        _read_bases(parameters["base_score"], count, _TRANSFORMS[objective]),
        "float32",
        _TRANSFORMS[objective],
        categories=_name_categories(model, features),
    )


def find_best_iteration(learner: Mapping[str, Any]) -> int | None:
    """Return the last iteration whose trees count, of a model of XGBoost's classes for scikit-learn that stopped early.

    Such an object predicts up to it; a Booster, with all trees.
    """
    attributes = learner.get("attributes", {})
    return int(attributes["best_iteration"]) if {"best_iteration", "scikit_learn"} <= attributes.keys() else None


def _count_used_trees(learner: Mapping[str, Any], model: Mapping[str, Any]) -> int:
    best = find_best_iteration(learner)
    return len(model["trees"]) if best is None else int(model["iteration_indptr"][best + 1])


def _name_categories(model: Mapping[str, Any], features: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of categories that XGBoost 3.1 and later keep of a table of pandas; numbers are written out."""
    names = {}
    for feature, entry in zip(features, model.get("cats", {}).get("enc", []), strict=False):
        if values := entry["values"]:
            data, ends = bytes(value & 0xFF for value in values), entry.get("offsets")
            texts = [data[a:b].decode() for a, b in itertools.pairwise(ends)] if ends else list(map(str, values))
            names[feature] = tuple(texts)
    return names


def _name_features(learner: Mapping[str, Any], count: int) -> tuple[str, ...]:
    return tuple(map(str, learner.get("feature_names") or [f"f{i}" for i in range(count)]))


def _read_bases(text: str, count: int, transform: Transform) -> tuple[float, ...]:
    """Return what the sums begin with, of answers as the file has them: one number, or since XGBoost 3.1 a list."""
    scores = np.atleast_1d(np.array(json.loads(text), np.float32))
    if transform == "sigmoid":
        scores = -np.log(np.float32(1) / scores - np.float32(1))
    elif transform == "exp":
        scores = np.log(scores)
    return tuple(np.broadcast_to(scores, count).astype(float).tolist())


def _read_tree(tree: Mapping[str, Any], weight: np.float32) -> Tree:
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise ImportModelError("Leaves that are vectors are not read: train with multi_strategy=one_output_per_tree.")
    lefts, rights = (np.asarray(tree[name], np.int64) for name in ("left_children", "right_children"))
    conditions = np.asarray(tree["split_conditions"], np.float32)
    features, is_inner = np.asarray(tree["split_indices"], np.int64), lefts >= 0
    is_leaf = ~is_inner & (features != _DELETED)
    numbers = number_nodes(is_leaf, is_inner)
    inner = np.flatnonzero(is_inner)
    right_sets = _read_categories(tree)
    swapped = np.array([node in right_sets for node in inner], bool)
    first, second = numbers[lefts[inner]], numbers[rights[inner]]
    default_left = np.asarray(tree["default_left"])[inner].astype(bool)
    return Tree(
        features[inner].astype(np.int32),
        np.nextafter(conditions[inner], np.float32(-np.inf)),
        np.where(swapped, second, first).astype(np.int32),
        np.where(swapped, first, second).astype(np.int32),
        default_left ^ swapped,
        tuple(_NAN for _ in inner),
        (conditions[is_leaf] * weight).astype(np.float64)[:, None],
        {place: right_sets[node] for place, node in enumerate(inner.tolist()) if node in right_sets},
        np.flatnonzero(is_leaf).astype(np.int32),
    )


def _read_categories(tree: Mapping[str, Any]) -> dict[int, frozenset[int]]:
    """Return the categories that go right at the nodes that compare categories."""
    names = ("categories_nodes", "categories_segments", "categories_sizes")
    parts = zip(*(np.asarray(tree.get(name, [])).tolist() for name in names), strict=True)
    categories = np.asarray(tree.get("categories", [])).tolist()
    return {int(node): frozenset(map(int, categories[begin : begin + size])) for node, begin, size in parts}
