"""What the spec compiles into the graph behind the model: raw scores to probabilities, vectors to embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builder.errors import ImportModelError
from builder.importers.tf import tensorflow
from builder.spec import Activation, ModelSpec, OutputSpec

_LEAST = 1e-24
"""A sum of squares that a division by its root takes at least, as PyTorch's ``normalize`` does: zeros stay zeros."""


@dataclass(frozen=True)
class Ending:
    """What follows a fetch, in this order."""

    activation: Activation = "none"
    dimensions: int | None = None
    normalise: bool = False


def ending(spec: ModelSpec, fetch: str, count: int) -> Ending:
    """What follows the ``fetch``, one of ``count``. Raises ImportModelError where outputs ask for several endings."""
    wanted = {
        _of(output, name)
        for output in spec.outputs
        for name in output.fetches
        if name == fetch or (name is None and count == 1)
    }
    if len(wanted) > 1:
        raise ImportModelError(
            f"[[outputs]] asks for different activations, dimensions or normalise on the same fetch {fetch!r}: a fetch "
            "has one of each."
        )
    return wanted.pop() if wanted else Ending()


def _of(output: OutputSpec, fetch: str | None) -> Ending:
    if output.kind == "detection":
        return Ending(output.activation) if fetch == output.scores else Ending()
    return Ending(output.activation, output.dimensions, output.normalise)


def finish(value: Any, wanted: Ending, fetch: str) -> Any:
    """``value`` with its ending: softmax over the last axis or sigmoid; of the last axis the first ``dimensions``; all
    of that axis divided by its Euclidean norm. Raises ImportModelError where that cannot be.
    """
    tf = tensorflow()
    value = _activate(value, wanted.activation, fetch)
    if wanted.dimensions is None and not wanted.normalise:
        return value
    size = value.shape[-1] if value.shape.rank else 1
    if wanted.dimensions is not None:
        if size is None or wanted.dimensions > size:
            raise ImportModelError(
                f"[[outputs]] asks for {wanted.dimensions} dimensions of {fetch!r}, which has {size}."
            )
        value = value[..., : wanted.dimensions]
    if wanted.normalise:
        _require_floats(value, "normalise", fetch)
        value = tf.math.l2_normalize(value, axis=-1, epsilon=_LEAST)
    return value


def _activate(scores: Any, activation: Activation, fetch: str) -> Any:
    tf = tensorflow()
    if activation == "none":
        return scores
    _require_floats(scores, activation, fetch)
    if activation == "softmax" and scores.shape.rank == 0:
        raise ImportModelError(f"[[outputs]] asks for softmax on {fetch!r}, which is a scalar.")
    return tf.nn.softmax(scores) if activation == "softmax" else tf.sigmoid(scores)


def _require_floats(value: Any, asked: str, fetch: str) -> None:
    if not value.dtype.is_floating:
        raise ImportModelError(
            f"[[outputs]] asks for {asked} on {fetch!r}, which is {value.dtype.name}; it needs floating point."
        )
