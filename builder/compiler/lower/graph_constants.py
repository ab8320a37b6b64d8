"""Values that the graph computes from constants alone and that XLA leaves to its kernels, such as a causal mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.hlo import Value

_MOST = 1 << 22
"""Maximum number of elements in such a value."""

_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
_COMPARISONS = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


def evaluate_constant(value: Value) -> NDArray[Any] | None:
    """Return the elements in logical order, or None if they depend on an input or an unknown operation."""
    if value.elements > _MOST or not value.dtype:
        return None
    if value.op == "constant":
        return value.literal
    if value.op == "iota":
        axis = value.instruction.dimensions[0]
        shape = [size if number == axis else 1 for number, size in enumerate(value.dims)]
        return np.broadcast_to(np.arange(value.dims[axis]).astype(value.dtype).reshape(shape), value.dims)
    operands = [evaluate_constant(operand) for operand in value.operands]
    known = [operand for operand in operands if operand is not None]
    if not operands or len(known) != len(operands):
        return None
    match value.op:
        case "bitcast" | "reshape" if value.row_major and value.operands[0].row_major:
            return known[0].reshape(value.dims) if known[0].dtype == np.dtype(value.dtype) else None
        case "copy":
            return known[0]
        case "broadcast":
            places = list(value.instruction.dimensions)
            shape = [size if axis in places else 1 for axis, size in enumerate(value.dims)]
            ordered = known[0].transpose(np.argsort(places)) if places else known[0]
            return np.broadcast_to(ordered.reshape(shape), value.dims)
        case "convert":
            return known[0].astype(value.dtype)
        case "compare":
            return np.asarray(_COMPARISONS[value.instruction.comparison_direction](*known))
        case "not":
            return ~known[0]
        case "select":
            return np.where(*known)
        case op if op in _BINARY:
            return np.asarray(_BINARY[op](*known))
    return None
