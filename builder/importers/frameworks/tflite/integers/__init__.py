"""What LiteRT's operators compute on quantised tensors, a module for each family."""

from __future__ import annotations

from builder.importers.frameworks.tflite.integers import (
    integer_arithmetic,
    integer_products,
    integer_reductions,
    integer_tables,
)
from builder.importers.frameworks.tflite.integers.integer_values import IntegerTable

INTEGER_OPERATORS = IntegerTable()
for _family in (integer_arithmetic, integer_products, integer_reductions, integer_tables):
    INTEGER_OPERATORS.update(_family.OPS)
