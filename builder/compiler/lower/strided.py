"""Values as strided views of another's memory: transpositions, copies and slices that move nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from builder.compiler.lower.hlo import Value, find_scalar

Part = tuple[int, int]
"""A size and a stride, in elements. An index may be made of several parts, the outermost first."""

Parts = tuple[Part, ...]

VIEWS = ("bitcast", "copy", "transpose", "slice", "broadcast")
"""Opcodes of values whose elements are those of their operand."""


@dataclass(frozen=True)
class Strided:
    """A value's elements in the memory of ``base``, from element ``first`` on, with the parts ``dims`` per dimension.

    They are ``factor`` times the numbers there.
    """

    base: Value
    first: int
    dims: tuple[Parts, ...]
    factor: float = 1.0

    @classmethod
    def from_dense(cls, value: Value) -> Strided:
        """Return a value's elements in its own memory, without gaps."""
        return cls(
            value.base, 0, tuple(((size, stride),) for size, stride in zip(value.dims, value.strides, strict=True))
        )


def find_strided_view(value: Value, unstored: AbstractSet[Value]) -> Strided | None:
    """Find ``value`` in the memory of the furthest value that it is a view of; None if all these are ``unstored``."""
    view = _view_operand(value, unstored)
    if view is not None:
        return view
    return None if value.base in unstored else Strided.from_dense(value)


def _view_operand(value: Value, unstored: AbstractSet[Value]) -> Strided | None:
    """Return ``value`` in the memory of its operand's base if it is a view of that, else None."""
    if value.op == "multiply" and value.dtype == "float32" and value.row_major:
        for source, other in (value.operands, value.operands[::-1]):
            if (factor := find_scalar(other)) is not None:
                scaled = find_strided_view(source, unstored)
                return None if scaled is None else replace(scaled, factor=scaled.factor * factor)
        return None
    if value.op not in VIEWS:
        return None
    inner = find_strided_view(value.operands[0], unstored)
    return None if inner is None else apply_view(value, inner)


def apply_view(value: Value, inner: Strided) -> Strided | None:
    """Apply ``value``, one of ``VIEWS``, to its operand ``inner``; None where that takes more than strides."""
    operand = value.operands[0]
    if operand.dtype != value.dtype:
        return None
    match value.op:
        case "copy":
            return inner
        case "transpose":
            return replace(inner, dims=tuple(inner.dims[axis] for axis in value.instruction.dimensions))
        case "broadcast":
            places = list(value.instruction.dimensions)
            dims = [
                inner.dims[places.index(axis)] if axis in places else ((size, 0),)
                for axis, size in enumerate(value.dims)
            ]
            return replace(inner, dims=tuple(dims))
        case "slice":
            return _apply_slice(value, inner)
    # A bitcast has the same bytes, so dimensions are compared from the slowest to the fastest.
    order = list(reversed(value.layout))
    flat = [part for axis in reversed(operand.layout) for part in inner.dims[axis]]
    index = regroup_index(flat, [value.dims[axis] for axis in order])
    return None if index is None else replace(inner, dims=tuple(index[order.index(axis)] for axis in range(len(order))))


def _apply_slice(value: Value, inner: Strided) -> Strided | None:
    first, dims = inner.first, []
    for parts, size, limits in zip(inner.dims, value.operands[0].dims, value.instruction.slice_dimensions, strict=True):
        if (limits.start, limits.limit, max(1, limits.stride)) == (0, size, 1):
            dims.append(parts)
        elif len(parts) == 1 and max(1, limits.stride) == 1:
            first += limits.start * parts[0][1]
            dims.append(((limits.limit - limits.start, parts[0][1]),))
        else:
            return None
    return replace(inner, first=first, dims=tuple(dims))


def regroup_index(parts: Sequence[Part], sizes: Sequence[int]) -> list[Parts] | None:
    """Regroup an index of ``parts`` into several of ``sizes``; None where one of them would not divide a part."""
    rest = [part for part in parts if part[0] != 1]
    if math.prod(size for size, _ in rest) != math.prod(sizes):
        return None
    groups: list[Parts] = []
    for size in reversed(sizes):
        group: list[Part] = []
        while size > 1:
            count, stride = rest.pop()
            if size % count == 0:
                group.insert(0, (count, stride))
                size //= count
            elif count % size == 0:
                group.insert(0, (size, stride))
                rest.append((count // size, stride * size))
                size = 1
            else:
                return None
        groups.insert(0, merge_parts(group))
    return groups


def merge_parts(parts: Sequence[Part]) -> Parts:
    """Merge ``parts`` into the same index with as few parts as possible."""
    merged: list[Part] = []
    for size, stride in parts:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return tuple(merged)


def find_common_index(indices: Sequence[Sequence[Part]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]] | None:
    """Return one index over several memories, whose parts differ, as common sizes and the strides in each memory.

    Returns None where the parts do not divide each other.
    """
    count = math.prod(size for size, _ in indices[0])
    cuts = {1, count}
    for parts in indices:
        inner = 1
        for size, _ in reversed(parts):
            inner *= size
            cuts.add(inner)
    ordered = sorted(cuts, reverse=True)
    if any(outer % inner for outer, inner in itertools.pairwise(ordered)):
        return None
    sizes = [outer // inner for outer, inner in itertools.pairwise(ordered)]
    strides = []
    for parts in indices:
        regrouped = regroup_exactly(parts, sizes)
        if regrouped is None:
            return None
        strides.append(regrouped)
    return _merge_dimensions(sizes, strides)


def regroup_exactly(parts: Sequence[Part], sizes: Sequence[int]) -> list[int] | None:
    """Return the stride of each of ``sizes``; None where one of them consists of several parts."""
    groups = regroup_index(parts, sizes)
    if groups is None or any(len(group) > 1 for group in groups):
        return None
    return [group[0][1] if group else 0 for group in groups]


def _merge_dimensions(sizes: list[int], strides: list[list[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    axis = len(sizes) - 1
    while axis > 0:
        if all(s[axis - 1] == s[axis] * sizes[axis] for s in strides):
            sizes[axis - 1 : axis + 1] = [sizes[axis - 1] * sizes[axis]]
            for s in strides:
                del s[axis - 1]
        axis -= 1
    return tuple(sizes), [tuple(s) for s in strides]
