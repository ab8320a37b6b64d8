"""Evaluation of the graph's values with NumPy, by which functions and constants are recognised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.hlo import Value

AnyArray = NDArray[Any]

_MOST = 1 << 22
"""Maximum number of elements in a value that is computed from constants."""

_erf = np.vectorize(math.erf, otypes=[np.float64])

_UNARY: dict[str, Callable[..., AnyArray]] = {
    "negate": np.negative, "abs": np.abs, "exponential": np.exp, "exponential-minus-one": np.expm1, "log": np.log,
    "log-plus-one": np.log1p, "tanh": np.tanh, "sqrt": np.sqrt, "sign": np.sign, "floor": np.floor, "not": np.invert,
    "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: _erf(x).astype(np.float32),
}  # fmt: skip
_BINARY: dict[str, Callable[..., AnyArray]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "power": np.power, "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip
_COMPARISONS = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
ELEMENTWISE = {*_UNARY, *_BINARY, "clamp", "select", "compare"}
"""Opcodes that ``apply_elementwise`` can evaluate."""

_EXACT = {
    "copy", "bitcast", "reshape", "broadcast", "convert", "compare", "not", "select", "add", "subtract", "multiply",
    "and", "or", "maximum", "minimum",
}  # fmt: skip
"""Opcodes whose results have the same bits in NumPy and in XLA's kernels."""


def apply_elementwise(value: Value, operands: Sequence[AnyArray]) -> AnyArray | None:
    """Apply the elementwise operation of ``value`` to arrays; return None if it is not in ``ELEMENTWISE``."""
    match value.op:
        case "clamp":
            return np.minimum(np.maximum(operands[1], operands[0]), operands[2])
        case "select":
            return np.where(*operands)
        case "compare":
            return _COMPARISONS[value.instruction.comparison_direction](*operands)
        case op if op in _UNARY:
            return _UNARY[op](*operands)
        case op if op in _BINARY:
            return _BINARY[op](*operands)
    return None


def evaluate_value(value: Value, operands: Sequence[AnyArray]) -> AnyArray | None:
    """Evaluate the elements of ``value``, in logical order, from those of its operands.

    Returns None for an operation that is neither elementwise nor a rearrangement of the elements.
    """
    match value.op:
        case "copy":
            return operands[0]
        case "bitcast" | "reshape":
            (source,) = value.operands
            same = value.row_major and source.row_major and value.dtype == source.dtype
            return operands[0].reshape(value.dims) if same else None
        case "broadcast":
            places = list(value.instruction.dimensions)
            shape = [size if axis in places else 1 for axis, size in enumerate(value.dims)]
            ordered = operands[0].transpose(np.argsort(places)) if places else operands[0]
            return np.broadcast_to(ordered.reshape(shape), value.dims)
        case "slice":
            return operands[0][tuple(slice(d.start, d.limit, d.stride) for d in value.instruction.slice_dimensions)]
        case "convert":
            return operands[0].astype(value.dtype)
    with np.errstate(all="ignore"):
        return apply_elementwise(value, operands)


def evaluate_constant(value: Value) -> AnyArray | None:
    """Evaluate a value that the graph computes from constants alone and that XLA leaves to its kernels.

    Returns None if it depends on an input or an operation whose result may have other bits.
    """
    if value.elements > _MOST or not value.dtype:
        return None
    if value.op == "constant":
        return value.literal
    if value.op == "iota":
        axis = value.instruction.dimensions[0]
        shape = [size if number == axis else 1 for number, size in enumerate(value.dims)]
        return np.broadcast_to(np.arange(value.dims[axis]).astype(value.dtype).reshape(shape), value.dims)
    if value.op not in _EXACT or not value.operands:
        return None
    operands = []
    for operand in value.operands:
        elements = evaluate_constant(operand)
        if elements is None:
            return None
        operands.append(elements)
    return evaluate_value(value, operands)
