"""Reads the labels in a graph: TensorFlow gives the strings of a fetch number by number.

A fetch of strings that a number selects becomes that number, and its output has the labels. A fetch of constant strings
(the ``classes`` of a classify signature) is left out, and the scores of as many classes have the labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from builder.base.errors import ImportModelError
from builder.base.tf import load_graph, reference_session, tf
from builder.importers.images.cut_decoding import StringCut
from builder.importers.strings.frontier import Tail, run_graph

MOST = 1 << 17
"""The largest number of labels in a table."""

_LONGEST = 1_000_000
"""The largest number of characters of all labels together."""


@dataclass(frozen=True)
class LabelTable:
    """The ``labels`` by number, and the tensor of as many scores (``scores``) that the numbers index, if known."""

    labels: tuple[str, ...]
    scores: str | None = None


def read_label_table(cut: StringCut, tail: Tail) -> LabelTable:
    """Return the labels that the numbers of ``tail`` select. Raises ImportModelError if they cannot be read."""
    assert tail.tensor is not None
    graph = load_graph(cut.raw.graph_def)
    index = graph.get_tensor_by_name(tail.tensor)
    scores = _find_scores(index)
    size = None if scores is None or scores.shape.rank is None else scores.shape[-1]
    strings = cut.raw.fetches[tail.fetch]
    shape = [1] if index.shape.rank is None else [length or 1 for length in index.shape.as_list()]
    labels: list[str] = []
    with reference_session(graph) as session:
        for number in range(MOST if size is None else size):
            value = np.full(shape, number, index.dtype.as_numpy_dtype)
            try:
                texts = np.ravel(session.run(strings, {index.name: value}))
            except tf.errors.OpError:  # The number is beyond the last label.
                break
            if texts.size != value.size or len(set(texts)) > 1:
                raise ImportModelError(
                    f"The output {tail.fetch!r} has {texts.size} strings for {value.size} numbers: leave it out."
                )
            labels.append(_decode_label(texts[0], tail.fetch))
        else:
            if size is None:
                raise ImportModelError(
                    f"The output {tail.fetch!r} has a string for any number: end the model in tf.argmax or top_k, so "
                    "that the number of classes can be told, or leave this output out by [[fetches]]."
                )
    if not labels:
        raise ImportModelError(f"The output {tail.fetch!r} is strings, and TensorFlow has none for the number 0.")
    _require_size(labels, tail.fetch)
    return LabelTable(_make_labels_unique(labels), scores.name if scores is not None and size == len(labels) else None)


def read_fixed_labels(cut: StringCut, tail: Tail, feeds: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the strings that a fetch has for the first item of any input; ``feeds``: an input, by tensor."""
    graph = load_graph(cut.raw.graph_def)
    (values,) = run_graph(graph, [cut.raw.fetches[tail.fetch]], feeds)
    rows = np.asarray(values, object)
    labels = [_decode_label(value, tail.fetch) for value in np.ravel(rows[0] if rows.ndim > 1 else rows)]
    _require_size(labels, tail.fetch)
    return _make_labels_unique(labels)


_THROUGH = {"Identity", "Cast", "Reshape", "ExpandDims", "Squeeze", "StopGradient"}


def _find_scores(chosen: Any) -> Any | None:
    """Return the tensor whose last dimension ``chosen`` indexes, if ArgMax or TopK gives it."""
    tensor = chosen
    while tensor.op.type in _THROUGH:
        tensor = tensor.op.inputs[0]
    op = tensor.op
    if op.type in ("TopKV2", "TopK") and tensor is op.outputs[1]:
        return op.inputs[0]
    if op.type != "ArgMax":
        return None
    from tensorflow.python.framework import tensor_util

    axis, rank = tensor_util.constant_value(op.inputs[1]), op.inputs[0].shape.rank
    return op.inputs[0] if axis is not None and int(axis) in (-1, (rank or 0) - 1) else None


def _decode_label(value: Any, fetch: str) -> str:
    """Return a label on one line."""
    try:
        return " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", bytes(value).decode()).split())
    except UnicodeDecodeError:
        raise ImportModelError(f"The output {fetch!r} is strings that are no UTF-8: {bytes(value)[:40]!r}.") from None


def _make_labels_unique(texts: list[str]) -> tuple[str, ...]:
    """Return ``texts`` with the class's number behind a repeated label, and in place of an empty one."""
    numbers: dict[str, int] = {}
    for number, text in enumerate(texts):
        label = text or str(number)
        while label in numbers:
            label = f"{label} ({number})"
        numbers[label] = number
    return tuple(numbers)


def _require_size(labels: list[str], fetch: str) -> None:
    if sum(map(len, labels)) > _LONGEST:
        raise ImportModelError(f"The labels of {fetch!r} have more than {_LONGEST:,} characters.")
