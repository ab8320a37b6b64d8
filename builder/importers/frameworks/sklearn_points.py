"""Estimators of scikit-learn that compare rows with rows that they were fitted to: support vectors and neighbours."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from builder.base.errors import ImportModelError


def score_by_vectors(model: Any, x: Any) -> Any:
    """Return the scores of classes [rows, classes] of an SVC: of two, the distance; of more, the votes of the pairs."""
    kernel, weights = _compare_with_vectors(model, x), _make_dense(model.dual_coef_)
    count = len(model.classes_)
    if count == 2:
        distance = kernel @ weights.T + model.intercept_
        return jnp.concatenate([-distance, distance], 1)
    pairs = list(combinations(range(count), 2))
    own = np.repeat(np.arange(count), model.n_support_)  # the class of each vector
    rows = np.array([(own == i) * weights[j - 1] + (own == j) * weights[i] for i, j in pairs])
    wins = kernel @ rows.T + model.intercept_
    if model.decision_function_shape == "ovo":
        return wins
    signs = np.array([np.eye(count)[i] - np.eye(count)[j] for i, j in pairs])
    votes = (wins >= 0) @ (signs > 0).astype(float) + (wins < 0) @ (signs < 0).astype(float)
    confidence = wins @ signs
    return votes + confidence / (3 * (jnp.abs(confidence) + 1))


def predict_by_vectors(model: Any, x: Any) -> Any:
    """Return the predictions [rows, 1] of an SVR."""
    return _compare_with_vectors(model, x) @ _make_dense(model.dual_coef_).T + model.intercept_


def ask_neighbours(model: Any, x: Any) -> Any:
    """Return the shares of classes among the nearest rows, or the mean of their values, [rows, columns]."""
    if model.effective_metric_ != "euclidean" or model.weights not in ("uniform", "distance") or model._y.ndim > 1:
        raise ImportModelError(
            f"{type(model).__name__} is read with the euclidean metric, uniform weights or those of distances, and one "
            "output."
        )
    nearest, rows = jax.lax.top_k(-((x[:, None] - _make_dense(model._fit_X)) ** 2).sum(2), model.n_neighbors)
    zero, distances = nearest == 0, jnp.sqrt(-nearest)
    weights = jnp.ones_like(distances)
    if model.weights == "distance":
        weights = jnp.where(zero.any(1, keepdims=True), zero.astype(x.dtype), 1 / jnp.where(zero, 1, distances))
    targets = np.eye(len(model.classes_))[model._y] if hasattr(model, "classes_") else model._y[:, None].astype(float)
    return (weights[:, :, None] * jnp.asarray(targets)[rows]).sum(1) / weights.sum(1, keepdims=True)


def _make_dense(x: Any) -> Any:
    """Return the array that a fitted estimator has: a sparse one where it was fitted to counts of terms."""
    return x.toarray() if sparse.issparse(x) else np.asarray(x)


def _compare_with_vectors(model: Any, x: Any) -> Any:
    """Return the kernel [rows, support vectors]."""
    vectors = _make_dense(model.support_vectors_)
    match model.kernel:
        case "linear":
            return x @ vectors.T
        case "rbf":
            squares = (x * x).sum(1, keepdims=True) - 2 * x @ vectors.T + (vectors * vectors).sum(1)
            return jnp.exp(-model._gamma * squares)
        case "poly":
            return (model._gamma * (x @ vectors.T) + model.coef0) ** model.degree
        case "sigmoid":
            return jnp.tanh(model._gamma * (x @ vectors.T) + model.coef0)
    raise ImportModelError(f"{type(model).__name__} has a kernel of its own, which is not read.")
