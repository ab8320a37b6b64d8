"""The operators of LiteRT on quantised tensors as JAX functions, with a module for each family."""

from __future__ import annotations

from collections.abc import Sequence

from builder.importers.frameworks.tflite.integers import (
    dynamic_range,
    integer_arithmetic,
    integer_moves,
    integer_products,
    integer_recurrence,
    integer_reductions,
    integer_tables,
)
from builder.importers.frameworks.tflite.integers.integer_values import IntegerOperator
from builder.importers.frameworks.tflite.tflite_tensors import Tensor

INTEGER_OPERATORS: dict[str, IntegerOperator] = {
    **integer_arithmetic.OPS, **integer_moves.OPS, **integer_products.OPS, **integer_recurrence.OPS,
    **integer_reductions.OPS, **integer_tables.OPS,
}  # fmt: skip


def find_integer_operator(
    name: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]
) -> IntegerOperator | None:
    """Return what computes an operator on the integers of quantised tensors, or None: on the numbers they stand for."""
    if name == "UNIDIRECTIONAL_SEQUENCE_LSTM" and not integer_recurrence.is_plain_lstm(inputs):
        return None
    quantised = [tensor is not None and tensor.is_quantised for tensor in (*inputs[:2], outputs[0])]
    if quantised[0] or quantised[-1]:
        return INTEGER_OPERATORS.get(name)
    return dynamic_range.OPS.get(name) if quantised[1:-1] == [True] else None
