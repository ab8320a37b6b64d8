"""Ensembles of trees of fitted estimators: scikit-learn's own, and the ones that XGBoost and LightGBM have for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import ensemble as forests
from sklearn import tree as trees
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import get_tags

from builder.base.errors import ImportModelError
from builder.importers.trees.ensemble import Ensemble, Missing, Transform, Tree, number_nodes, round_down
from builder.importers.trees.lightgbm_file import read_lightgbm
from builder.importers.trees.xgboost_file import read_xgboost

_SINGLE = (
    trees.DecisionTreeClassifier,
    trees.DecisionTreeRegressor,
    trees.ExtraTreeClassifier,
    trees.ExtraTreeRegressor,
)
_FORESTS = (
    forests.RandomForestClassifier,
    forests.RandomForestRegressor,
    forests.ExtraTreesClassifier,
    forests.ExtraTreesRegressor,
)
_BOOSTED = (forests.GradientBoostingClassifier, forests.GradientBoostingRegressor)
BINNED = (forests.HistGradientBoostingClassifier, forests.HistGradientBoostingRegressor)
ENSEMBLES = (*_SINGLE, *_FORESTS, *_BOOSTED, *BINNED)
"""The classes of scikit-learn whose trees are read here."""

NUMBERED = (*_SINGLE, *_FORESTS, *_BOOSTED)
"""The classes whose ``apply`` tells the leaves of rows."""


def has_trees(model: Any) -> bool:
    """Return whether ``read_trees`` reads ``model``."""
    return type(model) in ENSEMBLES or _find_package(model) in ("xgboost", "lightgbm")


def list_missing(model: Any) -> list[float]:
    """Return the numbers that stand for missing values in the rows of an estimator that ``has_trees``, beside NaN."""
    if not is_xgboost(model):
        return []
    zero = [0.0] if getattr(model, "misses_zeros", False) else []
    return [*zero, *([] if model.missing is None or np.isnan(model.missing) else [float(model.missing)])]


def is_xgboost(model: Any) -> bool:
    """Return whether ``model`` is one of XGBoost's estimators."""
    return _find_package(model) == "xgboost"


def _find_package(model: Any) -> str:
    return type(model).__module__.partition(".")[0]


def read_trees(model: Any, features: Sequence[str]) -> Ensemble:
    """Return the ensemble of a fitted estimator that ``has_trees``. Raises ImportModelError.

    ``features``: the names of its columns; where it has categorical features, these are the first ones.
    """
    if (package := _find_package(model)) != "sklearn":
        if package == "xgboost":
            booster, (first, end) = model.get_booster(), model._get_iteration_range(None)  # It may have stopped early.
            ensemble = read_xgboost(bytes((booster[first:end] if end else booster).save_raw("ubj")))
        else:
            ensemble = read_lightgbm(model.booster_.model_to_string().encode())
        if ensemble.categories:
            raise ImportModelError(f"{type(model).__name__} has categories of pandas: save it by its own save_model.")
        return ensemble
    if getattr(model, "n_outputs_", 1) > 1:
        raise ImportModelError(f"{type(model).__name__} answers several questions at once: train one for each.")
    missing: Missing = "nan" if get_tags(model).input_tags.allow_nan else "none"
    if isinstance(model, BINNED):
        return _read_binned(model, features, missing)
    if isinstance(model, _BOOSTED):
        return _read_boosted(model, features, missing)
    members = [model] if isinstance(model, _SINGLE) else model.estimators_
    read = tuple(_read_tree(member.tree_, 1.0, missing) for member in members)
    bases = (0.0,) * read[0].leaves.shape[1]
    return Ensemble(read, (0,) * len(read), tuple(features), bases, "float64", "identity", divisor=len(read))


def _read_boosted(model: Any, features: Sequence[str], missing: Missing) -> Ensemble:
    if not (model.init_ == "zero" or isinstance(model.init_, DummyClassifier | DummyRegressor)):
        raise ImportModelError(f"{type(model).__name__} begins with another model: train it without `init`.")
    width = model.estimators_.shape[1]
    begin = model._raw_predict_init(np.zeros((1, len(features)), np.float32))[0]
    members = [member for stage in model.estimators_ for member in stage]
    return Ensemble(
        tuple(_read_tree(member.tree_, model.learning_rate, missing) for member in members),
        tuple(i % width for i in range(len(members))),
        tuple(features),
        tuple(begin.tolist()),
        "float64",
        _find_transform(model, width),
        slope=2.0 if model.loss == "exponential" else 1.0,
    )


def _read_binned(model: Any, features: Sequence[str], missing: Missing) -> Ensemble:
    width = model.n_trees_per_iteration_
    predictors = [predictor for stage in model._predictors for predictor in stage]
    return Ensemble(
        tuple(_read_predictor(predictor, missing) for predictor in predictors),
        tuple(i % width for i in range(len(predictors))),
        tuple(features),
        tuple(model._baseline_prediction.ravel().tolist()),
        "float64",
        _find_transform(model, width),
    )


def _find_transform(model: Any, width: int) -> Transform:
    if hasattr(model, "classes_"):
        return "softmax" if width > 1 else "sigmoid"
    return "exp" if model.loss in ("poisson", "gamma") else "identity"


def _read_tree(tree: Any, scale: float, missing: Missing) -> Tree:
    """Return a tree whose leaves are the values of the nodes without children, times ``scale``."""
    nodes = {
        "leaf": tree.children_left < 0,
        "feature": tree.feature,
        "threshold": tree.threshold,
        "left": tree.children_left,
        "right": tree.children_right,
        "missing_left": np.asarray(tree.missing_go_to_left),
    }
    return _make_tree(nodes, scale * tree.value[:, 0, :], missing)


def _read_predictor(predictor: Any, missing: Missing) -> Tree:
    nodes = predictor.nodes
    names = {"leaf": "is_leaf", "feature": "feature_idx", "threshold": "num_threshold", "left": "left",
             "right": "right", "missing_left": "missing_go_to_left"}  # fmt: skip
    tree = _make_tree({name: nodes[field] for name, field in names.items()}, nodes["value"][:, None], missing)
    own = nodes[nodes["is_leaf"] == 0]
    left = predictor.raw_left_cat_bitsets.view(np.uint8)
    categories = {
        int(node): frozenset(np.flatnonzero(np.unpackbits(left[own["bitset_idx"][node]], bitorder="little")).tolist())
        for node in np.flatnonzero(own["is_categorical"])
    }
    return replace(tree, categories=categories)


def _make_tree(nodes: Mapping[str, Any], values: Any, missing: Missing) -> Tree:
    """Return the tree of scikit-learn's ``nodes``, in which leaves have numbers among the other ones."""
    leaf = np.asarray(nodes["leaf"], bool)
    inner = np.flatnonzero(~leaf)
    numbers = number_nodes(leaf, ~leaf)
    return Tree(
        nodes["feature"][inner].astype(np.int32),
        round_down(nodes["threshold"][inner]),
        numbers[nodes["left"][inner].astype(np.int64)].astype(np.int32),
        numbers[nodes["right"][inner].astype(np.int64)].astype(np.int32),
        nodes["missing_left"][inner].astype(np.bool_),
        (missing,) * len(inner),
        np.ascontiguousarray(values[leaf], np.float64),
        {},
        np.flatnonzero(leaf).astype(np.int32),
    )
