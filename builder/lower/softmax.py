"""Softmax over the last dimension, as XLA spells it: exp(x - max(x)) / sum(exp(x - max(x)))."""

from __future__ import annotations

import math

from builder.lower.hlo import Value, scalar


def softmax_of(value: Value) -> tuple[Value, tuple[Value, ...]] | None:
    """What ``value`` is the softmax of, and every value on the way, itself included; None if it is none."""
    if value.op != "divide" or not _plain(value):
        return None
    exponential, total = value.operands
    if exponential.op != "exponential" or exponential.dims != value.dims:
        return None
    summed = _reduced(total, "add")
    difference = exponential.operands[0]
    if summed is None or summed[0] is not exponential or difference.op != "subtract":
        return None
    source, largest = difference.operands
    most = _reduced(largest, "maximum")
    if most is None or most[0] is not source or not _plain(source):
        return None
    return source, (value, exponential, difference, *summed[1], *most[1])


def _plain(value: Value) -> bool:
    return value.dtype == "float32" and value.row_major and len(value.dims) > 0


def _reduced(value: Value, reducer: str) -> tuple[Value, list[Value]] | None:
    """What ``value`` repeats the sum or maximum of along the last dimension, and the values on the way."""
    if value.op != "broadcast" or not _plain(value):
        return None
    inside = [value, value.operands[0]]
    reduced = value.operands[0].base
    axes = set(value.instruction.dimensions)
    last = len(value.dims) - 1
    if last in axes or any(value.dims[axis] != 1 for axis in range(last) if axis not in axes):
        return None
    if not _whole_reduction(reduced, reducer) or not value.operands[0].row_major:
        return None
    inside.append(reduced)
    source = reduced.operands[0]
    while source.op == "reduce-window" and _in_windows(source, reducer):
        inside.append(source)
        source = source.operands[0]
    return (source, inside) if source.dims == value.dims else None


def _whole_reduction(value: Value, reducer: str) -> bool:
    neutral = value.op == "reduce" and len(value.operands) == 2 and value.reducer == reducer and _neutral(value)
    return neutral and list(value.instruction.dimensions) == [len(value.operands[0].dims) - 1]


def _neutral(value: Value) -> bool:
    return scalar(value.operands[1]) == (0.0 if value.reducer == "add" else -math.inf)


def _in_windows(value: Value, reducer: str) -> bool:
    """Whether a reduce-window is the first half of a reduction of the last dimension (XLA's tree reduction)."""
    if value.reducer != reducer or len(value.operands) != 2 or not _neutral(value):
        return False
    *others, last = value.instruction.window.dimensions
    if any((w.size, max(1, w.stride), w.padding_low, w.padding_high) != (1, 1, 0, 0) for w in others):
        return False
    dilated = max(1, last.base_dilation) != 1 or max(1, last.window_dilation) != 1
    covered = value.operands[0].dims[-1] + last.padding_low + last.padding_high
    beside = max(1, last.stride) == last.size and min(last.padding_low, last.padding_high) >= 0
    return not dilated and beside and covered == value.dims[-1] * last.size
