"""Inputs of a StableHLO program that it compares with 0, 1, 2, ..., as one-hot encodings are made.

A number outside of that range is no error: it is encoded as zeros. But it says nothing, and neither do a few numbers
out of many, so that golden inputs are drawn from the whole range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

_MOVES = {f"stablehlo.{name}" for name in ("broadcast_in_dim", "convert", "reshape", "transpose")}


def count_symbols(main: Any, read_constant: Callable[[Any], Any]) -> dict[int, int]:
    """Return, by the number of an argument of ``main``, how many numbers from 0 on its elements are compared with.

    ``read_constant`` returns the array of a value, or None if it is not constant.
    """
    counts: dict[int, int] = {}
    block = main.regions[0].blocks[0]
    for op in block.operations:
        if op.operation.name == "stablehlo.compare" and "EQ" in str(op.attributes["comparison_direction"]):
            one, other = (_find_source(value) for value in op.operands)
            for argument, numbers in ((one, other), (other, one)):
                if isinstance(argument.owner, ir.Block) and (count := _count_numbers(numbers, read_constant)) > 1:
                    number = list(block.arguments).index(argument)
                    counts[number] = min(count, counts.get(number, count))
    return counts


def _find_source(value: Any) -> Any:
    """Return the value whose elements ``value`` has in another place or type."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _MOVES:
        value = value.owner.operands[0]
    return value


def _count_numbers(value: Any, read_constant: Callable[[Any], Any]) -> int:
    """Return the number of different elements of ``value`` if it is known and they are 0, 1, 2, ...; 0 otherwise."""
    if not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.iota":
        return int(ir.ShapedType(value.type).shape[int(value.owner.attributes["iota_dimension"])])
    constant = read_constant(value)
    if constant is None:
        return 0
    numbers = np.unique(constant)
    return len(numbers) if np.array_equal(numbers, np.arange(len(numbers))) else 0
