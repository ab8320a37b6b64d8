"""Maxima and means over windows of tensors of bytes.

A maximum of bytes is a byte. A sum becomes one as quantised models write it, in one of two forms: for a mean with
another scale, ``round_even(float32(sum * factor) + offset)``; for the mean of a window's pixels, ``round(sum / count)``
with halves away from zero. Both products are of float64 and rounded to float32, which one operation in float32 equals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.evaluate import evaluate_constant
from builder.compiler.lower.hlo import Dag, Value, find_scalar
from builder.compiler.lower.integer_layers import LEAST_BYTES, find_byte_bounds
from builder.compiler.lower.pooling import Pool, PoolKind, match_pool
from builder.compiler.lower.steps.image_step import SumRounding

_EXACT = 1 << 24
"""Integers below it are float32."""
_MOST_OFFSET = 1 << 22
"""The kernel rounds by an addition, and limits products to four times as much."""


@dataclass(frozen=True)
class IntegerPool:
    """A ``pool`` that reads and stores bytes; ``rounding``: what its sums become, or None for maxima."""

    pool: Pool
    rounding: SumRounding | None = None

    @property
    def value(self) -> Value:
        """The bytes that it stores."""
        return self.pool.value

    @property
    def input(self) -> Value:
        """The bytes that it reads."""
        return self.pool.input

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The value that it stores, as ``base``."""
        return (self.value.base,)

    @property
    def inside(self) -> tuple[Value, ...]:
        """Values that it computes and does not store."""
        return self.pool.inside


def find_integer_pools(dag: Dag) -> list[IntegerPool]:
    """Find every live maximum and mean of bytes over windows or the whole image."""
    found = [pool for value in dag.live if (pool := _match_maximum(value) or _match_mean(value)) is not None]
    inside = {value for pool in found for value in pool.inside}
    return [pool for pool in found if pool.value not in inside]


def _match_maximum(value: Value) -> IntegerPool | None:
    """Match a maximum, and the clamp to all numbers that a byte has behind it."""
    inside, source = [], value
    if value.dtype not in LEAST_BYTES:
        return None
    if value.op == "convert" and value.operands[0].op == "clamp" and value.operands[0].dtype == "int32":
        (clamped,) = value.operands
        wide, limits = clamped.operands[1], np.iinfo(value.dtype)
        if wide.op != "convert" or find_byte_bounds(clamped, value.dtype) != (limits.min, limits.max):
            return None
        source, inside = wide.operands[0], [clamped, wide, wide.operands[0]]
    pool = match_pool(source, _match_maximum_kind)
    if pool is None or source.dtype != value.dtype or not value.row_major:
        return None
    return IntegerPool(replace(pool, value=value, inside=(*inside, *pool.inside)))


def _match_maximum_kind(value: Value) -> PoolKind | None:
    if value.reducer != "maximum" or value.dtype not in LEAST_BYTES or not _reduces_image(value):
        return None
    return "max" if find_scalar(value.operands[1], value.dtype) == LEAST_BYTES[value.dtype] else None


def _match_sum_kind(value: Value) -> PoolKind | None:
    if value.reducer != "add" or value.dtype != "int32" or not _reduces_image(value):
        return None
    return "sum" if find_scalar(value.operands[1], "int32") == 0 else None


def _reduces_image(value: Value) -> bool:
    source = value.operands[0]
    return len(value.operands) == 2 and len(source.dims) == 4 and value.row_major and source.row_major


def _match_mean(value: Value) -> IntegerPool | None:
    """Match the bytes that are made of sums of bytes."""
    if value.op != "convert" or value.dtype not in LEAST_BYTES or value.operands[0].op != "clamp":
        return None
    (clamped,) = value.operands
    inside, rounded = [clamped], clamped.operands[1]
    if clamped.dtype == "int32" and rounded.op == "convert":
        inside.append(rounded)
        (rounded,) = rounded.operands
    bounds = find_byte_bounds(clamped, value.dtype)
    if bounds is None or rounded.op not in ("round-nearest-even", "round-nearest-afz"):
        return None
    (number,) = rounded.operands
    inside.append(rounded)
    offset: float | None = 0.0
    if number.op == "add":
        inside.append(number)
        offset, number = _split_number(number)
    if number.op != "convert" or number.dtype != "float32" or offset is None or abs(offset) > _MOST_OFFSET:
        return None
    (product,) = number.operands
    if product.op not in ("multiply", "divide") or product.dtype != "float64":
        return None
    wide, factor = product.operands if product.operands[0].op == "convert" else product.operands[::-1]
    total = _pass_views(wide.operands[0]) if wide.op == "convert" else wide
    pool = match_pool(total, _match_sum_kind)
    if pool is None or pool.input.op != "convert" or pool.input.operands[0].dtype != value.dtype:
        return None
    (source,) = pool.input.operands
    inside += [number, product, wide, total, pool.input]
    suitable = all(v.row_major for v in (value, source, *inside)) and math.prod(pool.window) * 255 < _EXACT
    rounding = SumRounding(LEAST_BYTES[value.dtype], *bounds)
    if rounded.op == "round-nearest-even":
        scale = find_scalar(factor, "float64")
        suitable &= product.op == "multiply" and scale is not None and scale == float(np.float32(scale))
        rounding = replace(rounding, factor=scale, offset=offset)
    else:
        suitable &= offset == 0 and _divides_by_counts(product, factor, pool)
    pool = replace(pool, value=value, input=source, inside=(*inside, *pool.inside))
    return IntegerPool(pool, rounding) if suitable else None


def _pass_views(value: Value) -> Value:
    while value.op == "bitcast" and value.row_major and value.operands[0].dtype == value.dtype:
        (value,) = value.operands
    return value


def _split_number(total: Value) -> tuple[float | None, Value]:
    """Return the number that an addition has as one operand, None if it has none, and the other operand."""
    first, second = total.operands
    number = find_scalar(second)
    return (find_scalar(first), second) if number is None else (number, first)


def _divides_by_counts(product: Value, factor: Value, pool: Pool) -> bool:
    """Return whether each window's sum is divided by the number of the image's pixels that it holds."""
    factors = evaluate_constant(factor)
    if factors is None or (product.op == "divide" and factor is not product.operands[1]):
        return False
    pixels = np.multiply.outer(*(_count_pixels(pool, axis) for axis in (0, 1))).astype(np.float64)
    expected = pixels if product.op == "divide" else 1 / pixels
    factors = factors.reshape(pool.in_image[0], *pool.out_image[1:], pool.channels)
    return bool(np.allclose(factors, expected[:, :, None], rtol=1e-14, atol=0))


def _count_pixels(pool: Pool, axis: int) -> NDArray[np.int64]:
    """Return how many rows, or columns, of the image each window along ``axis`` holds."""
    starts = np.arange(pool.out_image[1 + axis]) * pool.stride[axis] - pool.padding[axis]
    return np.minimum(starts + pool.window[axis], pool.in_image[1 + axis]) - np.maximum(starts, 0)
