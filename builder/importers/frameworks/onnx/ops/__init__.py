"""What each operator of ONNX computes, a module for each family."""

from __future__ import annotations

from builder.importers.frameworks.onnx.ops import (
    control_flow,
    convolution,
    elementwise,
    image_pooling,
    image_sampling,
    indexing,
    linear,
    microsoft,
    normalisation,
    quantised,
    recurrent,
    reduction,
    shaping,
    signal,
)
from builder.importers.frameworks.operator_table import OperatorTable

_FAMILIES = (
    control_flow,
    convolution,
    elementwise,
    indexing,
    linear,
    microsoft,
    normalisation,
    image_pooling,
    quantised,
    recurrent,
    reduction,
    image_sampling,
    shaping,
    signal,
)

OPERATORS = OperatorTable()
for _family in _FAMILIES:
    OPERATORS.update(_family.OPS)
