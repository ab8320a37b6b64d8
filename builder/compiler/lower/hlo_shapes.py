"""XLA shapes: dtypes by NumPy's names, sizes and element strides."""

from __future__ import annotations

import math
from typing import Any

from builder.base.errors import LowerError

ELEMENT_TYPES: dict[int, tuple[str, int]] = {
    1: ("bool", 1),
    2: ("int8", 1),
    3: ("int16", 2),
    4: ("int32", 4),
    5: ("int64", 8),
    6: ("uint8", 1),
    7: ("uint16", 2),
    8: ("uint32", 4),
    9: ("uint64", 8),
    10: ("float16", 2),
    11: ("float32", 4),
    12: ("float64", 8),
    15: ("complex64", 8),
    16: ("bfloat16", 2),
    18: ("complex128", 16),
}
"""NumPy's name and bytes per element of each xla.PrimitiveType (xla_data.proto)."""


def get_dtype(shape: Any) -> str:
    return _get_element(shape)[0]


def get_item_size(shape: Any) -> int:
    return _get_element(shape)[1]


def _get_element(shape: Any) -> tuple[str, int]:
    try:
        return ELEMENT_TYPES[shape.element_type]
    except KeyError:
        raise LowerError(
            f"XLA used element type {shape.element_type}, which the runtime does not have; "
            "cast to float32 or an integer of 8 bits or more in the model."
        ) from None


def compute_shape_strides(shape: Any) -> tuple[int, ...]:
    """Compute the element stride of each logical dimension of a dense XLA shape (``minor_to_major`` layout)."""
    dims = list(shape.dimensions)
    result = [0] * len(dims)
    stride = 1
    for dimension in shape.layout.minor_to_major:
        result[dimension] = stride
        stride *= max(1, dims[dimension])
    return tuple(result)


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
