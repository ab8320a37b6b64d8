"""Ensembles of trees of ai.onnx.ml, with the conventions of ONNX Runtime.

Its classifier of two classes may have weights of one class only; which scores it makes of them depends on whether all
are positive. Specification: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from builder.base.arrays import Array
from builder.importers.frameworks.array_functions import count_below
from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.onnx.class_scores import (
    complete_binary_scores,
    make_labels,
    transform_scores,
    transform_targets,
)
from builder.importers.frameworks.operator_table import OperatorTable
from builder.importers.frameworks.tree_sums import add_leaves
from builder.importers.trees.onnx_nodes import LeafWeights, OnnxNodes, OnnxTrees, convert_tree_ensemble, read_onnx_trees

OPS = OperatorTable()
ML = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = {0: "NONE", 3: "SOFTMAX_ZERO", 4: "PROBIT"}


@OPS.define("TreeEnsembleRegressor", domain=ML)
def regress_by_trees(
    x: Value,
    *,
    n_targets: int = 1,
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
    dtype: Any = np.float32,
    **attributes: Any,
) -> Value:
    """Return the sums or means of leaves [rows, targets] in ``dtype``, transformed."""
    if aggregate_function not in ("SUM", "AVERAGE"):
        raise ValueError(f"aggregate_function is {aggregate_function}, and SUM and AVERAGE are read")
    weights = _read_weights(attributes, "target", n_targets, _read_bases(attributes, n_targets))
    weights = replace(weights, mean=aggregate_function == "AVERAGE")
    return transform_targets(_sum_leaves(x, _read_nodes(attributes), weights, dtype), post_transform)


@OPS.define("TreeEnsemble", domain=ML)
def sum_tree_ensemble(
    x: Value, *, n_targets: int, aggregate_function: int = 1, post_transform: int = 0, **attributes: Any
) -> Value:
    """Return what TreeEnsembleRegressor does, in the type of the input."""
    types = x.dtype, attributes["nodes_splits"].dtype, attributes["leaf_weights"].dtype
    if types not in ((np.float32,) * 3, (np.float64,) * 3):
        kinds = ", ".join(map(str, types))
        raise ValueError(f"its input, nodes_splits and leaf_weights are {kinds}: float32 or float64 are read")
    if post_transform in (1, 2):
        raise ValueError(
            "post_transform is SOFTMAX or LOGISTIC, which ONNX Runtime confuses: make it a node of its own"
        )
    names = {"aggregate_function": _AGGREGATES[aggregate_function], "post_transform": _TRANSFORMS[post_transform]}
    return regress_by_trees(x, n_targets=n_targets, dtype=x.dtype, **names, **convert_tree_ensemble(attributes))


@OPS.define("TreeEnsembleClassifier", domain=ML)
def classify_by_trees(
    x: Value,
    *,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    **attributes: Any,
) -> tuple[Value, Value]:
    """Return the labels [rows] and scores [rows, classes]."""
    labels = classlabels_strings or classlabels_int64s
    count, ids, nodes = len(labels), set(attributes["class_ids"]), _read_nodes(attributes)
    bases = _read_doubles(attributes, "base_values")
    if count == len(bases) == 2:
        raise ValueError("it has two classes and two base_values, of which ONNX Runtime makes what no writer means")
    if count == 2 and ids == {1}:
        bases = bases[:0]  # ONNX Runtime adds a single one to the first class, and to nothing that has no weights.
    attributes = {**attributes, "base_values": bases, "base_values_as_tensor": None}
    positive = bool((_read_doubles(attributes, "class_weights") >= 0).all())
    second = 0.5 if positive and len(ids) == 1 else 0.0  # The class is the second one where its score is above this.
    if count == 2 and ids == {0}:  # These are of the second class.
        sums = _sum_leaves(x, nodes, _read_weights(attributes, "class", 1, _read_bases(attributes, 1)))
        places, scores = sums[:, 0] > second, complete_binary_scores(sums, post_transform, positive)
    else:
        sums = _sum_leaves(x, nodes, _read_weights(attributes, "class", count, _read_bases(attributes, count)))
        scored = np.isin(np.arange(count), [*ids, *range(len(bases))])
        places = sums[:, 1] > second if count == 2 else jnp.argmax(jnp.where(scored, sums, -np.inf), 1)
        scores = transform_scores(sums, post_transform)
    if count == 2 and len(ids) == 2 and not classlabels_strings:
        labels = (0, 1)  # So does ONNX Runtime, whatever the labels are.
    return make_labels(places.astype(np.int32), labels), scores


def _sum_leaves(x: Value, nodes: OnnxNodes, weights: LeafWeights, dtype: Any = np.float32) -> Any:
    """Return the sums [rows, outputs] in ``dtype``, of a row of float64 in float64 as long as they are added up."""
    x = jnp.atleast_2d(x)
    x = x if x.dtype == np.float64 else x.astype(np.float32)
    trees = read_onnx_trees(nodes, weights, x.shape[1], x.dtype.name)
    return add_leaves(trees.ensemble, _prepare_columns(trees, x)).astype(dtype)


def _prepare_columns(trees: OnnxTrees, x: Any) -> Any:
    columns = [] if x.dtype == np.float64 else [x]
    for feature, values in trees.ranked:
        column = x[:, feature, None]
        ranks = count_below(values, column).astype(np.float32)
        columns.append(jnp.where(jnp.isnan(column), np.nan, ranks))
    for feature, is_truncated, values in trees.equal:
        column, known = x[:, feature, None], jnp.asarray(values.astype(x.dtype))
        column = jnp.trunc(column) if is_truncated else column
        places = jnp.minimum(count_below(known, column), len(values) - 1)
        numbers = jnp.where(known[places] == column, places.astype(np.float32), -1)
        columns.append(jnp.where(jnp.isnan(column), np.nan, numbers))
    return jnp.concatenate(columns or [jnp.zeros((len(x), 1))], 1).astype(np.float32)  # Trees may be single leaves.


def _read_nodes(attributes: Mapping[str, Any]) -> OnnxNodes:
    names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    trees, numbers, features, modes, trues, falses = (attributes[f"nodes_{name}"] for name in names)
    tracks, members = (attributes.get(f"nodes_{name}", ()) for name in ("missing_value_tracks_true", "members"))
    values = _read_doubles(attributes, "nodes_values")
    return OnnxNodes(trees, numbers, features, modes, values, trues, falses, tracks, members)


def _read_weights(attributes: Mapping[str, Any], kind: str, outputs: int, bases: tuple[float, ...]) -> LeafWeights:
    """Return the weights of leaves; ``kind`` is how the names of attributes begin: "class" or "target"."""
    trees, numbers, ids = (attributes[f"{kind}_{name}"] for name in ("treeids", "nodeids", "ids"))
    return LeafWeights(trees, numbers, ids, _read_doubles(attributes, f"{kind}_weights"), outputs, bases)


def _read_doubles(attributes: Mapping[str, Any], name: str) -> Array:
    """Return an attribute that is a list of floats, or a tensor under another name."""
    value = attributes.get(f"{name}_as_tensor")
    return np.asarray(attributes.get(name, ()) if value is None else value, np.float64)


def _read_bases(attributes: Mapping[str, Any], outputs: int) -> tuple[float, ...]:
    bases = _read_doubles(attributes, "base_values").tolist()
    if len(bases) not in (0, 1, outputs):
        raise ValueError(f"it has {len(bases)} base_values for {outputs} outputs")
    return tuple([*bases, *[0.0] * outputs][:outputs])
