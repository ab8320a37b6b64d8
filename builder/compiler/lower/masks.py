"""What an attention adds to its scores, or chooses them by: read from the memory of a value that is stored."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.graph_constants import constant_array
from builder.compiler.lower.hlo import Value, scalar
from builder.compiler.lower.steps.attention_step import Mask, MaskKind, MaskType
from builder.compiler.lower.strided import VIEWS, Part, Strided, regroup, strides_of, through

_LEFT_OUT = -1e9
"""Exponentials of scores that a mask makes so small are 0."""

_TYPES: dict[str, MaskType] = {"float32": "f32", "int32": "s32", "bool": "u8"}


@dataclass(frozen=True)
class FoundMask:
    """``mask`` has no place yet: its elements are of ``source``, or of ``constant`` where they are known.

    ``outer``, ``query`` and ``key``: how they lie there, by what is outside of the queries, by query and by key.
    """

    mask: Mask
    source: Value | None = None
    constant: NDArray[np.float32] | None = None
    outer: tuple[Part, ...] = ()
    query: int = 0
    key: int = 0


@dataclass(frozen=True)
class _Numbers:
    """``element * scale + shift``, with the elements of ``place.base`` as numbers of ``type``."""

    place: Strided
    type: MaskType
    scale: float = 1.0
    shift: float = 0.0
    hides: bool = False
    """It is -infinity instead, where the number is 0, and else 0."""

    def times(self, factor: float) -> _Numbers:
        return replace(self, scale=self.scale * factor, shift=self.shift * factor)

    def plus(self, term: float) -> _Numbers:
        return replace(self, shift=self.shift + term)


def find_mask(
    kind: MaskKind,
    value: Value,
    fill: float,
    sizes: tuple[int, int, int],
    unstored: AbstractSet[Value],
    *,
    inverted: bool = False,
) -> FoundMask | None:
    """The mask whose numbers, or for "chosen" truth values, ``value`` has in the order of the scores.

    ``sizes``: how often there are scores, of how many queries and keys. ``inverted``: false chooses the score.
    None where they cannot be read from memory.
    """
    numbers = _read(value, unstored)
    if numbers is not None and inverted:
        numbers = numbers.times(-1.0).plus(1.0)
    if numbers is None or not value.row_major:
        return None
    if numbers.hides:
        if kind != "added":
            return None
        kind, fill = "chosen", -math.inf
    parts = regroup([part for dim in numbers.place.dims for part in dim], sizes)
    if parts is None or len(parts[1]) > 1 or len(parts[2]) > 1:
        return None
    outer, query, key = parts[0], *(dim[0][1] if dim else 0 for dim in parts[1:])
    source = numbers.place.base
    mask = Mask(kind, type=numbers.type, scale=numbers.scale, shift=numbers.shift, fill=fill, first=numbers.place.first)
    found = FoundMask(mask, source, outer=outer, query=query, key=key)
    known = constant_array(source)
    return found if known is None else _of_constant(found, known, sizes)


def _of_constant(found: FoundMask, elements: NDArray[Any], sizes: tuple[int, int, int]) -> FoundMask:
    assert found.source is not None
    mask = found.mask
    order = list(reversed(found.source.layout))
    lying = (elements != 0) if mask.type == "set" else elements
    numbers = lying.transpose(order).astype(np.float64) * mask.scale + mask.shift
    constant = np.ascontiguousarray(numbers, np.float32)
    mask = replace(mask, type="f32", scale=1.0, shift=0.0)
    found = replace(found, mask=mask, source=None, constant=constant)
    return _as_causal(found, constant, sizes) or found


def _as_causal(found: FoundMask, constant: NDArray[np.float32], sizes: tuple[int, int, int]) -> FoundMask | None:
    """The same as "causal", where it lets every query see the keys up to one place, and at least one."""
    _, queries, keys = sizes
    if any(stride for _, stride in found.outer) or (found.query, found.key) != (keys, 1) or found.mask.first:
        return None
    table = constant.reshape(-1)[: queries * keys].reshape(queries, keys)
    if found.mask.kind == "chosen":
        kept, left_out = table != 0, found.mask.fill <= _LEFT_OUT
    else:
        kept = table == 0
        left_out = bool((table[~kept] <= _LEFT_OUT).all())
    past = int(kept[0].sum()) - 1
    triangle = np.arange(keys) <= np.arange(queries)[:, None] + past
    if not left_out or past < 0 or kept.all() or not np.array_equal(kept, triangle):
        return None
    return FoundMask(Mask("causal", fill=-math.inf, past=past), outer=found.outer)


def _read(value: Value, unstored: AbstractSet[Value]) -> _Numbers | None:
    """As far back as what is done to the elements is known."""
    found = _computed(value, unstored)
    if found is not None and math.isfinite(found.scale) and math.isfinite(found.shift):
        return found
    base = value.base
    if value.dtype not in _TYPES or (base in unstored and constant_array(base) is None) or base.dtype != value.dtype:
        return None
    dims = tuple(((size, stride),) for size, stride in zip(value.dims, strides_of(value), strict=True))
    return _Numbers(Strided(base, 0, dims), _TYPES[value.dtype])


def _computed(value: Value, unstored: AbstractSet[Value]) -> _Numbers | None:
    if value.op in VIEWS:
        inner = _read(value.operands[0], unstored)
        place = None if inner is None else through(value, inner.place)
        return None if inner is None or place is None else replace(inner, place=place)
    match value.op:
        case "convert" if value.dtype == "float32" and value.operands[0].dtype in _TYPES:
            return _read(value.operands[0], unstored)
        case "not":
            inner = _read(value.operands[0], unstored)
            return None if inner is None else inner.times(-1.0).plus(1.0)
        case "negate":
            inner = _read(value.operands[0], unstored)
            return None if inner is None or inner.hides else inner.times(-1.0)
        case "compare":
            return _compared(value, unstored)
        case "select" if value.dtype == "float32":
            return _selected(value, unstored)
        case "add" | "subtract" | "multiply" if value.dtype == "float32" and len({*value.operands}) == 2:
            return _with_scalar(value, unstored)
    return None


def _selected(value: Value, unstored: AbstractSet[Value]) -> _Numbers | None:
    """One of two numbers, by a condition."""
    condition, yes, no = value.operands[0], scalar(value.operands[1]), scalar(value.operands[2])
    inner = None if yes is None or no is None else _read(condition, unstored)
    if inner is None or yes is None or no is None:
        return None
    if (yes, no) == (0.0, -math.inf):
        return replace(inner, hides=True)
    if (yes, no) == (-math.inf, 0.0):
        return replace(inner.times(-1.0).plus(1.0), hides=True)
    return inner.times(yes - no).plus(no)


def _with_scalar(value: Value, unstored: AbstractSet[Value]) -> _Numbers | None:
    left, right = value.operands
    swapped = scalar(left) is not None
    number = scalar(left if swapped else right)
    inner = None if number is None else _read(right if swapped else left, unstored)
    if inner is None or number is None or inner.hides:
        return None
    if value.op == "multiply":
        return inner.times(number)
    if value.op == "add":
        return inner.plus(number)
    return inner.times(-1.0).plus(number) if swapped else inner.plus(-number)


def _compared(value: Value, unstored: AbstractSet[Value]) -> _Numbers | None:
    """``x != 0`` and ``x == 0`` of int32."""
    source, zero = value.operands
    known = constant_array(zero) if source.dtype == "int32" else None
    direction = value.instruction.comparison_direction
    if known is None or known.any() or direction not in ("EQ", "NE"):
        return None
    inner = _read(source, unstored)
    if inner is None or (inner.type, inner.scale, inner.shift) != ("s32", 1.0, 0.0):
        return None
    found = replace(inner, type="set")
    return found if direction == "NE" else found.times(-1.0).plus(1.0)
