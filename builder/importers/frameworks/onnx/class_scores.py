"""Scores and labels of classes with the conventions of ONNX Runtime's classifiers of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from builder.importers.frameworks.onnx.text_codes import TextCodes

_ZERO = 1e-7
"""The largest absolute value of a score that SOFTMAX_ZERO leaves out."""


def make_labels(places: Any, labels: Sequence[int] | Sequence[str]) -> Any:
    """Return the labels of ``places`` [rows]: int64, or texts as numbers that stand for them."""
    if labels and isinstance(labels[0], str):
        return TextCodes(jnp.asarray(places, np.int32), tuple(map(str, labels)))
    return jnp.asarray(np.array(labels, np.int64))[places]


def transform_scores(scores: Any, transform: str) -> Any:
    """Return float32 ``scores`` [rows, outputs] after an operator's post_transform."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return jax.nn.sigmoid(scores)
        case "SOFTMAX":
            return jax.nn.softmax(scores, 1) if scores.shape[1] > 1 else scores
        case "SOFTMAX_ZERO":
            if scores.shape[1] == 1:
                return scores
            highest = jnp.max(scores, 1, keepdims=True)
            nonzero = jnp.abs(scores) > np.float32(_ZERO)
            values = jnp.where(nonzero, jnp.exp(scores - highest), scores * jnp.exp(-highest))
            return values / jnp.sum(jnp.where(nonzero, values, 0), 1, keepdims=True)
        case _:
            raise ValueError(f"post_transform is {transform}, which is not supported")


def transform_targets(values: Any, transform: str) -> Any:
    """Return float32 ``values`` [rows, targets] after a regressor's post_transform."""
    if transform == "LOGISTIC" and values.shape[1] == 1:
        raise ValueError(
            "post_transform is LOGISTIC for a single target, which ONNX Runtime leaves out: make it a node of its own"
        )
    return transform_scores(values, transform)


def complete_binary_scores(scores: Any, transform: str, positive: bool) -> Any:
    """Return the scores of two classes [rows, 2], where there is one of the second class [rows, 1].

    ``positive``: whether it is a probability, since no weight is negative.
    """
    if transform == "LOGISTIC":
        return jnp.concatenate([jax.nn.sigmoid(-scores), jax.nn.sigmoid(scores)], 1)
    if positive:
        return jnp.concatenate([1 - scores, scores], 1)
    if transform == "PROBIT":
        raise ValueError("post_transform is PROBIT, which is not supported")
    return jnp.concatenate([-scores, scores], 1)
