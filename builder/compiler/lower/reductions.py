"""Softmax over the last dimension, as XLA writes it: exp(x - max(x)) / sum(exp(x - max(x))).

JAX takes the larger of the maximum and -infinity. PyTorch selects zeros for rows that hold only -infinity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from builder.compiler.lower.hlo import Value, find_scalar


@dataclass(frozen=True)
class Softmax:
    """A softmax of ``source``; ``inside``: every value on the way, including the result.

    ``safe``: whether rows of only -infinity give zeros instead of NaN.
    """

    source: Value
    inside: tuple[Value, ...]
    safe: bool = False


def match_softmax(value: Value) -> Softmax | None:
    """Match the softmax whose result is ``value``; None if it is anything else."""
    if value.op != "select":
        return _match_plain_softmax(value)
    condition, result, zero = value.operands
    softmax = _match_plain_softmax(result) if find_scalar(zero) == 0 else None
    if softmax is None or condition.op != "broadcast" or not condition.row_major:
        return None
    path = _match_some_kept(condition, softmax.source)
    return None if path is None else Softmax(softmax.source, (value, *path, *softmax.inside), safe=True)


def _match_some_kept(value: Value, source: Value) -> tuple[Value, ...] | None:
    """Return the values from ``source`` to ``value``: whether a row has more than -infinity, repeated along it."""
    reduction = match_reduction(value.operands[0].base, "or") if _repeats_rows(value) else None
    if reduction is None:
        return None
    visible, halves = reduction
    hidden = visible.operands[0] if visible.op == "not" else visible
    if visible.dims != value.dims or hidden.op != "compare":
        return None
    direction = "EQ" if visible.op == "not" else "NE"
    right = hidden.instruction.comparison_direction == direction and hidden.operands[0] is source
    path = (value, *halves, visible, hidden)
    return path if right and find_scalar(hidden.operands[1]) == -math.inf else None


def _match_plain_softmax(value: Value) -> Softmax | None:
    if value.op != "divide" or not is_dense_float32(value):
        return None
    exponential, total = value.operands
    if exponential.op != "exponential" or exponential.dims != value.dims:
        return None
    summed = _match_repeated_reduction(total, "add")
    difference = exponential.operands[0]
    if summed is None or not _has_same_rows(summed[0], exponential) or difference.op != "subtract":
        return None
    source, largest = difference.operands
    most = _match_repeated_reduction(largest, "maximum")
    if most is None or not _has_same_rows(most[0], source) or not is_dense_float32(source):
        return None
    return Softmax(source, (value, exponential, difference, *summed[1], *most[1]))


def _has_same_rows(value: Value, other: Value) -> bool:
    """Return whether two values are the same bytes in rows of the same length."""
    return value.base is other.base and value.dims[-1:] == other.dims[-1:]


def is_dense_float32(value: Value) -> bool:
    """Return whether ``value`` is float32, dense in the order of its dimensions, and not a scalar."""
    return value.dtype == "float32" and value.row_major and len(value.dims) > 0


def _repeats_rows(value: Value) -> bool:
    """Return whether a broadcast repeats numbers along the last dimension alone; it may add others of size 1."""
    axes, last = set(value.instruction.dimensions), len(value.dims) - 1
    return last not in axes and all(value.dims[axis] == 1 for axis in range(last) if axis not in axes)


def _match_repeated_reduction(value: Value, reducer: str) -> tuple[Value, list[Value]] | None:
    """Return the source whose reduction ``value`` repeats along the last dimension, and the values on the way."""
    if value.op != "broadcast" or not is_dense_float32(value):
        return None
    path = [value, value.operands[0]]
    reduced = value.operands[0].base
    if not _repeats_rows(value):
        return None
    if reducer == "maximum" and reduced.op == "maximum":
        path.append(reduced)
        left, right = reduced.operands
        reduced = (left if find_scalar(right) == -math.inf else right).base
    reduction = match_reduction(reduced, reducer)
    if reduction is None or not value.operands[0].row_major:
        return None
    source, halves = reduction
    rows = source.elements == value.elements and source.dims[-1] == value.dims[-1]
    return (source, [*path, *halves]) if rows and is_dense_float32(source) else None


def match_reduction(value: Value, reducer: str) -> tuple[Value, list[Value]] | None:
    """Return the source and the values, ``value`` included, of an "add", "or" or "maximum" over the last axis, or None.

    It may be over axes of size 1 as well.
    """
    if not _is_whole_reduction(value, reducer):
        return None
    path, source = [value], value.operands[0]
    while source.op == "reduce-window" and _is_windowed_half(source, reducer):
        path.append(source)
        source = source.operands[0]
    return source, path


def _is_whole_reduction(value: Value, reducer: str) -> bool:
    if value.op != "reduce" or len(value.operands) != 2 or value.reducer != reducer or not _is_neutral(value):
        return False
    sizes, axes = value.operands[0].dims, list(value.instruction.dimensions)
    return len(sizes) - 1 in axes and all(sizes[axis] == 1 for axis in axes if axis != len(sizes) - 1)


def _is_neutral(value: Value) -> bool:
    return find_scalar(value.operands[1], value.dtype) == (-math.inf if value.reducer == "maximum" else 0.0)


def _is_windowed_half(value: Value, reducer: str) -> bool:
    """Return whether a reduce-window is the first half of a reduction of the last dimension."""
    reduces = value.reducer == reducer and len(value.operands) == 2 and _is_neutral(value)
    return reduces and is_tree_half(value, [len(value.dims) - 1])


def is_tree_half(value: Value, axes: Sequence[int]) -> bool:
    """Return whether a reduce-window splits ``axes`` into adjacent windows without a rest (XLA's tree reduction)."""
    for axis, w in enumerate(value.instruction.window.dimensions):
        stride, low, high = max(1, w.stride), w.padding_low, w.padding_high
        if max(1, w.base_dilation) != 1 or max(1, w.window_dilation) != 1 or stride != w.size or min(low, high) < 0:
            return False
        if value.operands[0].dims[axis] + low + high != value.dims[axis] * w.size:
            return False
        if axis not in axes and (w.size, low, high) != (1, 0, 0):
            return False
    return True
