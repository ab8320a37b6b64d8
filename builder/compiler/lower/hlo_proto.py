"""XLA's protobuf messages: shapes, constants, and a module's instructions by id and by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from builder.base.errors import LowerError

ELEMENT_TYPES: dict[int, tuple[str, int, str]] = {
    1: ("bool", 1, "preds"),
    2: ("int8", 1, "s8s"),
    3: ("int16", 2, "s16s"),
    4: ("int32", 4, "s32s"),
    5: ("int64", 8, "s64s"),
    6: ("uint8", 1, "u8s"),
    7: ("uint16", 2, "u16s"),
    8: ("uint32", 4, "u32s"),
    9: ("uint64", 8, "u64s"),
    10: ("float16", 2, "f16s"),
    11: ("float32", 4, "f32s"),
    12: ("float64", 8, "f64s"),
    15: ("complex64", 8, "c64s"),
    16: ("bfloat16", 2, "bf16s"),
    18: ("complex128", 16, "c128s"),
}
"""Name in NumPy, bytes per element, and LiteralProto's field of each xla.PrimitiveType (xla_data.proto)."""


def get_dtype(shape: Any) -> str:
    """Return NumPy's name of a shape's element type."""
    return _get_element(shape)[0]


def get_item_size(shape: Any) -> int:
    """Return the bytes per element of a shape."""
    return _get_element(shape)[1]


def _get_element(shape: Any) -> tuple[str, int, str]:
    try:
        return ELEMENT_TYPES[shape.element_type]
    except KeyError:
        raise LowerError(
            f"XLA used element type {shape.element_type}, which the runtime does not have; "
            "cast to float32 or an integer of 8 bits or more in the model."
        ) from None


def compute_shape_strides(shape: Any) -> tuple[int, ...]:
    """Compute the element stride of each logical dimension of a dense XLA shape."""
    return compute_strides(shape.dimensions, shape.layout.minor_to_major)


def compute_strides(dims: Sequence[int], minor_to_major: Sequence[int]) -> tuple[int, ...]:
    """Compute the element stride of each of ``dims``, whose elements lie without gaps in an order of dimensions."""
    strides, step = [0] * len(dims), 1
    for dimension in minor_to_major:
        strides[dimension] = step
        step *= max(1, dims[dimension])
    return tuple(strides)


def is_row_major(shape: Any) -> bool:
    """Return whether the dense bytes are in C order; dimensions of size 1 do not count."""
    expected = 1
    for size, stride in reversed(list(zip(shape.dimensions, compute_shape_strides(shape), strict=True))):
        if size > 1 and stride != expected:
            return False
        expected *= max(1, size)
    return True


def merge_dimensions(shape: Any, dimensions: list[int], what: str) -> tuple[int, int]:
    """Merge several logical dimensions into one; return its size and element stride.

    Raises LowerError, naming ``what``, if they are not adjacent in memory.
    """
    sizes, steps = list(shape.dimensions), compute_shape_strides(shape)
    total = math.prod(sizes[d] for d in dimensions)
    merged: int | None = None
    span = 0
    for dimension in reversed([d for d in dimensions if sizes[d] != 1]):
        if merged is None:
            merged = steps[dimension]
        elif steps[dimension] != span:
            raise LowerError(f"{what}: dimensions {dimensions} of {sizes} cannot be walked with one stride.")
        span = steps[dimension] * sizes[dimension]
    return total, merged or 0


def encode_literal(literal: Any, size: int, name: str) -> bytes:
    """Encode a LiteralProto as little-endian bytes in its own layout, which is the buffer's.

    Raises LowerError, naming the constant, if they are not the ``size`` bytes that its buffer holds.
    """
    kind, _, field = _get_element(literal.shape)
    numbers = getattr(literal, field)
    if not isinstance(numbers, bytes):  # Of a complex number, the parts are numbers of their own.
        numbers = np.fromiter(numbers, {"complex64": "float32", "complex128": "float64"}.get(kind, kind)).tobytes()
    data: bytes = numbers
    if len(data) != size:
        raise LowerError(f"constant {name} holds {len(data)} bytes of {kind}, its buffer {size}.")
    return data


class HloIndex:
    """An index of a CompilationResultProto's module by id and by name, which are unique among its instructions."""

    def __init__(self, result: Any) -> None:
        module = result.hlo_module.hlo_module
        self.computations: dict[int, Any] = {c.id: c for c in module.computations}
        self.entry: Any = self.computations.get(module.entry_computation_id)
        self.instructions: dict[int, Any] = {}
        self.names: dict[str, Any] = {}
        self.owners: dict[int, Any] = {}
        """Computation of an instruction, by the instruction's id."""
        for computation in module.computations:
            for instruction in computation.instructions:
                self.instructions[instruction.id] = instruction
                self.names[instruction.name] = instruction
                self.owners[instruction.id] = computation

    def get_operands(self, instruction: Any) -> list[Any]:
        """Return the instructions whose values ``instruction`` reads."""
        return [self.instructions[i] for i in instruction.operand_ids]

    def get_called(self, instruction: Any) -> list[Any]:
        """Return the computations an instruction calls: a fusion, a reducer, branches, a loop's condition and body."""
        return [self.computations[i] for i in instruction.called_computation_ids]

    def get_root(self, computation: Any) -> Any:
        """Return the instruction that computes the value of ``computation``."""
        return self.instructions[computation.root_id]
