"""Outputs of classifiers as callers get them: probabilities and the names of classes, instead of labels and maps.

Converters write two outputs: a label, and its probabilities as a table or, after ZipMap, as a list of maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, numpy_helper

from builder.base.arrays import Array
from builder.importers.frameworks.onnx.graph_function import read_attribute

_MOVES = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "ZipMap"}
_KEEP_ORDER = _MOVES | {"Div", "Exp", "Normalizer", "Softmax", "Sub"}
"""Operators after which the highest score is the same, as converters use them on scores [rows, classes]."""
_CLASSIFIERS = {"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"}


@dataclass(frozen=True)
class ClassOutputs:
    """``names``: of the classes. ``label`` and ``scores``: outputs of the graph, "" if there are none.

    ``derived``: whether the label is always the class of the highest score.
    """

    names: tuple[str, ...] = ()
    label: str = ""
    scores: str = ""
    derived: bool = False


def find_class_outputs(graph: Any, makers: Mapping[str, NodeProto]) -> ClassOutputs:
    """Return which outputs of ``graph`` are of classes; ``makers``: the node of each value."""
    if len(graph.output) != 2:
        return ClassOutputs()
    label, scores = (value.name for value in graph.output)
    names: tuple[str, ...] = ()
    value = _follow_moves(label, makers, _MOVES)
    maker = makers.get(value)
    if maker is not None and maker.op_type == "ArrayFeatureExtractor":
        known = {tensor.name: tensor for tensor in graph.initializer}
        if maker.input[0] not in known:
            return ClassOutputs()
        names = tuple(_describe_label(item) for item in numpy_helper.to_array(known[maker.input[0]]).reshape(-1))
        value = _follow_moves(maker.input[1], makers, _MOVES)
        maker = makers.get(value)
    if maker is None or maker.op_type not in _CLASSIFIERS | {"ArgMax"}:
        return ClassOutputs()
    if maker.op_type == "ArgMax":
        highest = _follow_moves(maker.input[0], makers, {"Cast", "Identity"})
        reached = _reaches_source(scores, highest, makers)
        return ClassOutputs(names, label, scores, reached) if names else ClassOutputs()
    attributes = {attribute.name: read_attribute(attribute) for attribute in maker.attribute}
    names = tuple(next(map(str, value) for key, value in attributes.items() if key.startswith("classlabels")))
    derived = _takes_highest(maker.op_type, attributes, len(names)) and _reaches_source(scores, maker.output[1], makers)
    return ClassOutputs(names, label, scores, derived)


def _takes_highest(operator: str, attributes: Mapping[str, Any], classes: int) -> bool:
    """Say whether the label of a classifier is that of its highest score."""
    transform = attributes.get("post_transform", "NONE")
    if operator == "TreeEnsembleClassifier":
        if classes == 2:  # Of positive weights, a sum above 0.5 is the second class.
            positive = min(attributes.get("class_weights", (0,))) >= 0
            return set(attributes["class_ids"]) == {0} and not (positive and transform == "LOGISTIC")
        return bool(transform != "SOFTMAX_ZERO")
    if operator == "LinearClassifier":
        return transform in ("NONE", "LOGISTIC", "SOFTMAX") and (
            len(attributes["intercepts"]) > 1 or transform == "LOGISTIC"
        )
    return False  # Support vector machines vote.


def _follow_moves(value: str, makers: Mapping[str, NodeProto], transparent: set[str]) -> str:
    while value in makers and makers[value].op_type in transparent:
        value = makers[value].input[0]
    return value


def _reaches_source(value: str, source: str, makers: Mapping[str, NodeProto]) -> bool:
    while value != source and value in makers and makers[value].op_type in _KEEP_ORDER:
        value = makers[value].input[0]
    return value == source


def _describe_label(item: Any) -> str:
    return item.decode() if isinstance(item, bytes) else str(item)


def read_answer(value: Any, names: Sequence[str]) -> Array:
    """Return an answer of ONNX Runtime as an array: texts as their number among ``names``, maps as rows."""
    if isinstance(value, list):
        return np.array([list(row.values()) for row in value], np.float32)
    array = np.asarray(value)
    if array.dtype.kind in "OU":
        return np.array([names.index(str(text)) for text in array.reshape(-1)], np.int64).reshape(array.shape)
    return array
