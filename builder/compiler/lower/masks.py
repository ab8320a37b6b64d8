"""The masks that attentions add to their scores or choose them by, read from the memory of a stored value."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.evaluate import evaluate_constant
from builder.compiler.lower.hlo import Value, find_scalar
from builder.compiler.lower.steps.attention_step import Mask, MaskKind, MaskType
from builder.compiler.lower.steps.base import UNPLACED
from builder.compiler.lower.strided import VIEWS, Part, Strided, apply_view, regroup_index

_LEFT_OUT = -1e9
"""A score that a mask makes so small has an exponential of 0."""

_TYPES: dict[str, MaskType] = {"float32": "f32", "int32": "s32", "bool": "u8"}


@dataclass(frozen=True)
class MatchedMask:
    """A ``mask`` without a buffer yet: its elements are those of ``source``, or the bytes of a new constant.

    ``outer``, ``query`` and ``key``: the strides of the elements there, by outer index, by query and by key.
    """

    mask: Mask
    source: Value | bytes | None = None
    outer: tuple[Part, ...] = ()
    query: int = 0
    key: int = 0

    def place_elements(self, strides: tuple[int, int, int]) -> Mask:
        """Return the mask with a buffer that has no place yet; ``strides``: from matrix to matrix."""
        buffer = None if self.source is None else UNPLACED
        return replace(self.mask, buffer=buffer, strides=(*strides, self.query, self.key))


@dataclass(frozen=True)
class _MaskNumbers:
    """The numbers ``element * scale + shift``, with the elements of ``place.base`` as numbers of ``type``."""

    place: Strided
    type: MaskType
    scale: float = 1.0
    shift: float = 0.0
    hides: bool = False
    """True if the mask is -infinity where the number is 0, and else 0."""

    def multiply_by(self, factor: float) -> _MaskNumbers:
        return replace(self, scale=self.scale * factor, shift=self.shift * factor)

    def add_term(self, term: float) -> _MaskNumbers:
        return replace(self, shift=self.shift + term)


def find_mask(
    kind: MaskKind,
    value: Value,
    fill: float,
    sizes: tuple[int, int, int],
    unstored: AbstractSet[Value],
    *,
    inverted: bool = False,
) -> MatchedMask | None:
    """Find the mask with the numbers ("added") or truth values ("chosen") of ``value``, in the order of the scores.

    ``sizes``: the numbers of outer indices, queries and keys. ``inverted``: whether false chooses the score.
    Returns None where the mask cannot be read from memory.
    """
    numbers = _read_numbers(value, unstored)
    if numbers is not None and inverted:
        numbers = numbers.multiply_by(-1.0).add_term(1.0)
    if numbers is None or not value.row_major:
        return None
    if numbers.hides:
        if kind != "added":
            return None
        kind, fill = "chosen", -math.inf
    parts = regroup_index([part for dim in numbers.place.dims for part in dim], sizes)
    if parts is None or len(parts[1]) > 1 or len(parts[2]) > 1:
        return None
    outer, query, key = parts[0], *(dim[0][1] if dim else 0 for dim in parts[1:])
    source = numbers.place.base
    mask = Mask(kind, type=numbers.type, scale=numbers.scale, shift=numbers.shift, fill=fill, first=numbers.place.first)
    matched = MatchedMask(mask, source, outer, query, key)
    elements = evaluate_constant(source)
    if elements is None:
        return matched
    order = list(reversed(source.layout))
    table = (elements != 0 if mask.type == "set" else elements).transpose(order)
    constant = np.ascontiguousarray(table.astype(np.float64) * mask.scale + mask.shift, np.float32)
    matched = replace(matched, mask=replace(mask, type="f32", scale=1.0, shift=0.0), source=constant.tobytes())
    return _match_causal(matched, constant, sizes) or matched


def _match_causal(
    matched: MatchedMask, constant: NDArray[np.float32], sizes: tuple[int, int, int]
) -> MatchedMask | None:
    """Return the same mask as "causal", if every query sees at least one key and those up to a diagonal; else None."""
    _, queries, keys = sizes
    if any(stride for _, stride in matched.outer) or (matched.query, matched.key) != (keys, 1) or matched.mask.first:
        return None
    table = constant.reshape(-1)[: queries * keys].reshape(queries, keys)
    if matched.mask.kind == "chosen":
        seen, left_out = table != 0, matched.mask.fill <= _LEFT_OUT
    else:
        seen = table == 0
        left_out = bool((table[~seen] <= _LEFT_OUT).all())
    past = int(seen[0].sum()) - 1
    triangle = np.arange(keys) <= np.arange(queries)[:, None] + past
    if not left_out or past < 0 or seen.all() or not np.array_equal(seen, triangle):
        return None
    return MatchedMask(Mask("causal", fill=-math.inf, past=past), outer=matched.outer)


def _read_numbers(value: Value, unstored: AbstractSet[Value]) -> _MaskNumbers | None:
    """Read the numbers from as far back as the operations on the elements are known."""
    numbers = _read_computed(value, unstored)
    if numbers is not None and math.isfinite(numbers.scale) and math.isfinite(numbers.shift):
        return numbers
    base = value.base
    if value.dtype not in _TYPES or (base in unstored and evaluate_constant(base) is None) or base.dtype != value.dtype:
        return None
    return _MaskNumbers(Strided.from_dense(value), _TYPES[value.dtype])


def _read_computed(value: Value, unstored: AbstractSet[Value]) -> _MaskNumbers | None:
    if value.op in VIEWS:
        inner = _read_numbers(value.operands[0], unstored)
        place = None if inner is None else apply_view(value, inner.place)
        return None if inner is None or place is None else replace(inner, place=place)
    match value.op:
        case "convert" if value.dtype == "float32" and value.operands[0].dtype in _TYPES:
            return _read_numbers(value.operands[0], unstored)
        case "not":
            inner = _read_numbers(value.operands[0], unstored)
            return None if inner is None else inner.multiply_by(-1.0).add_term(1.0)
        case "negate":
            inner = _read_numbers(value.operands[0], unstored)
            return None if inner is None or inner.hides else inner.multiply_by(-1.0)
        case "compare":
            return _read_compared(value, unstored)
        case "select" if value.dtype == "float32":
            return _read_selected(value, unstored)
        case "add" | "subtract" | "multiply" if value.dtype == "float32" and len({*value.operands}) == 2:
            return _read_with_scalar(value, unstored)
    return None


def _read_selected(value: Value, unstored: AbstractSet[Value]) -> _MaskNumbers | None:
    """Read a choice between two numbers by a condition."""
    condition, yes, no = value.operands[0], find_scalar(value.operands[1]), find_scalar(value.operands[2])
    inner = None if yes is None or no is None else _read_numbers(condition, unstored)
    if inner is None or yes is None or no is None:
        return None
    if (yes, no) == (0.0, -math.inf):
        return replace(inner, hides=True)
    if (yes, no) == (-math.inf, 0.0):
        return replace(inner.multiply_by(-1.0).add_term(1.0), hides=True)
    return inner.multiply_by(yes - no).add_term(no)


def _read_with_scalar(value: Value, unstored: AbstractSet[Value]) -> _MaskNumbers | None:
    left, right = value.operands
    swapped = find_scalar(left) is not None
    number = find_scalar(left if swapped else right)
    inner = None if number is None else _read_numbers(right if swapped else left, unstored)
    if inner is None or number is None or inner.hides:
        return None
    if value.op == "multiply":
        return inner.multiply_by(number)
    if value.op == "add":
        return inner.add_term(number)
    return inner.multiply_by(-1.0).add_term(number) if swapped else inner.add_term(-number)


def _read_compared(value: Value, unstored: AbstractSet[Value]) -> _MaskNumbers | None:
    """Read ``x != 0`` or ``x == 0`` of int32."""
    source, zero = value.operands
    constant = evaluate_constant(zero) if source.dtype == "int32" else None
    direction = value.instruction.comparison_direction
    if constant is None or constant.any() or direction not in ("EQ", "NE"):
        return None
    inner = _read_numbers(source, unstored)
    if inner is None or (inner.type, inner.scale, inner.shift) != ("s32", 1.0, 0.0):
        return None
    numbers = replace(inner, type="set")
    return numbers if direction == "NE" else numbers.multiply_by(-1.0).add_term(1.0)
