"""Linear models and support vector machines of ai.onnx.ml, with the conventions of ONNX Runtime.

Specification: https://onnx.ai/onnx/operators/index.html#ai-onnx-ml. Probabilities of several classes are coupled as by
Wu, Lin and Weng (2004), "Probability estimates for multi-class classification by pairwise coupling", JMLR 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from builder.importers.frameworks.graph_values import Value
from builder.importers.frameworks.onnx.class_scores import make_labels, transform_scores, transform_targets
from builder.importers.frameworks.operator_table import OperatorTable

OPS = OperatorTable()
_ML = "ai.onnx.ml"
_LEAST = 1e-7
"""The least probability of a pair's class."""


@OPS.define("LinearRegressor", domain=_ML)
def regress_linearly(
    x: Value,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> Value:
    """Return the products of rows and coefficients, with the intercepts, [rows, targets]."""
    return transform_targets(_multiply_rows(x, coefficients, intercepts, targets), post_transform)


@OPS.define("LinearClassifier", domain=_ML)
def classify_linearly(
    x: Value,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    multi_class: int = 0,
) -> tuple[Value, Value]:
    """Return the labels [rows] and scores [rows, classes]."""
    del multi_class
    labels = classlabels_strings or classlabels_ints
    count = len(intercepts) or len(labels)
    scores = _multiply_rows(x, coefficients, intercepts, count)
    if count > 1:
        return make_labels(jnp.argmax(scores, 1), labels), transform_scores(scores, post_transform)
    chosen = make_labels((scores[:, 0] > 0).astype(np.int32), labels if len(labels) == 2 else (0, 1))
    scores = transform_scores(scores, post_transform)
    return chosen, jnp.concatenate([1 - scores, scores], 1) if len(labels) == 2 else scores


@OPS.define("SVMRegressor", domain=_ML)
def regress_by_vectors(
    x: Value,
    *,
    coefficients: Sequence[float],
    rho: Sequence[float],
    support_vectors: Sequence[float] = (),
    n_supports: int = 0,
    kernel_type: str = "LINEAR",
    kernel_params: Sequence[float] = (0.0, 0.0, 0.0),
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Value:
    """Return the sums [rows, 1] of kernels of rows and support vectors, or their signs if there is one class."""
    weights = np.array(coefficients, np.float32)
    if n_supports:
        vectors = np.array(support_vectors, np.float32).reshape(n_supports, -1)
        sums = _compute_kernel(x, vectors, kernel_type, kernel_params) @ weights[:, None] + np.float32(rho[0])
    else:
        sums = _compute_kernel(x, weights[None], kernel_type, kernel_params) + np.float32(rho[0])
    if one_class:
        return jnp.where(sums > 0, np.float32(1), np.float32(-1))
    return transform_targets(sums, post_transform)


@OPS.define("SVMClassifier", domain=_ML)
def classify_by_vectors(
    x: Value,
    *,
    coefficients: Sequence[float],
    rho: Sequence[float],
    support_vectors: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
    kernel_type: str = "LINEAR",
    kernel_params: Sequence[float] = (0.0, 0.0, 0.0),
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
) -> tuple[Value, Value]:
    """Return the labels [rows], and probabilities [rows, classes] or the scores of all pairs of classes."""
    labels = classlabels_strings or classlabels_ints
    weights = np.array(coefficients, np.float32)
    if not vectors_per_class:
        sums = _compute_kernel(x, weights.reshape(len(labels), -1), kernel_type, kernel_params) + np.float32(rho[0])
        return make_labels(jnp.argmax(sums, 1), labels), transform_scores(sums, post_transform)
    count, ends = len(vectors_per_class), np.cumsum(vectors_per_class)
    pairs = list(itertools.combinations(range(count), 2))
    begins = ends - np.array(vectors_per_class)
    weights = weights.reshape(count - 1, -1)
    table = np.zeros((len(pairs), ends[-1]), np.float32)
    for row, (i, j) in zip(table, pairs, strict=True):
        row[begins[i] : ends[i]] = weights[j - 1, begins[i] : ends[i]]
        row[begins[j] : ends[j]] = weights[i, begins[j] : ends[j]]
    vectors = np.array(support_vectors, np.float32).reshape(ends[-1], -1)
    scores = _compute_kernel(x, vectors, kernel_type, kernel_params) @ table.T + np.array(rho, np.float32)
    wins = [(scores[:, k] > 0, i, j) for k, (i, j) in enumerate(pairs)]
    votes = [sum((won if c == i else ~won).astype(np.int32) for won, i, j in wins if c in (i, j)) for c in range(count)]
    chosen = make_labels(jnp.argmax(jnp.stack(votes, 1), 1), labels)
    if prob_a:
        logits = scores * np.array(prob_a, np.float32) + np.array(prob_b, np.float32)
        scores = _couple_probabilities(jnp.clip(1 / (1 + jnp.exp(logits)), _LEAST, 1 - _LEAST), count)
        return chosen, transform_scores(scores, post_transform)
    if count > 2:
        return chosen, transform_scores(scores, post_transform)
    first = -scores if post_transform == "NONE" else 1 - transform_scores(scores, post_transform)
    return chosen, jnp.concatenate([first, transform_scores(scores, post_transform)], 1)


def _multiply_rows(x: Value, coefficients: Sequence[float], intercepts: Sequence[float], count: int) -> Value:
    rows = jnp.atleast_2d(jnp.asarray(x).astype(np.float32))
    sums = rows @ np.array(coefficients, np.float32).reshape(count, -1).T
    return sums + np.array(intercepts, np.float32) if intercepts else sums


def _compute_kernel(x: Value, vectors: Any, kind: str, params: Sequence[float]) -> Value:
    """Return the kernels of rows [rows, columns] and vectors [vectors, columns]."""
    x = jnp.atleast_2d(jnp.asarray(x).astype(np.float32))
    gamma, offset, degree = (np.float32(value) for value in params)
    if kind == "RBF":
        differences = x[:, None] - vectors[None]
        return jnp.exp(-gamma * jnp.sum(differences * differences, -1))
    products = x @ vectors.T
    match kind:
        case "POLY":
            return jnp.power(gamma * products + offset, degree)
        case "SIGMOID":
            return jnp.tanh(gamma * products + offset)
    return products


def _couple_probabilities(wins: Value, count: int) -> Value:
    """Return the probabilities of classes [rows, count] from those of the first class of each pair [rows, pairs].

    It is the second method of the article: the iteration ends for a row once it is balanced.
    """
    pairs = np.full((count, count), 0, np.int32)
    for k, (i, j) in enumerate(itertools.combinations(range(count), 2)):
        pairs[i, j], pairs[j, i] = k, k + wins.shape[1]
    both = jnp.concatenate([wins, 1 - wins], 1)
    table = jnp.where(np.eye(count, dtype=bool), 0, both[:, pairs])  # [rows, count, count]
    other = jnp.swapaxes(table, 1, 2)
    q = jnp.where(np.eye(count, dtype=bool), jnp.sum(other * other, 2)[:, :, None], -other * table)

    def step(_: int, state: tuple[Any, Any]) -> tuple[Any, Any]:
        p, done = state
        qp = jnp.sum(q * p[:, None], 2)
        pqp = jnp.sum(p * qp, 1)
        done |= jnp.max(jnp.abs(qp - pqp[:, None]), 1) < np.float32(0.005 / count)
        new = p
        for t in range(count):
            own = q[:, t, t]
            change = (pqp - qp[:, t]) / own
            new = new.at[:, t].add(change)
            pqp = (pqp + change * (change * own + 2 * qp[:, t])) / (1 + change) ** 2
            qp = (qp + change[:, None] * q[:, t]) / (1 + change)[:, None]
            new = new / (1 + change)[:, None]
        return jnp.where(done[:, None], p, new), done

    begin = jnp.full((wins.shape[0], count), 1 / count, np.float32), jnp.zeros(wins.shape[0], bool)
    return lax.fori_loop(0, max(100, count), step, begin)[0]
