"""Leave out the constants that no step reads any more, and move the others together."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from builder.errors import LowerError
from builder.lower.program import Buffer, Program
from builder.lower.replan import WeightStore


def compact(program: Program, share: bool = True) -> Program:
    """The same program over only those weights that it uses; equal ones share one place if ``share``.

    Raises LowerError where a step reads no constant.
    """
    old = sorted(program.weights, key=lambda w: w.offset)
    starts = [w.offset for w in old]
    store = WeightStore(share)
    moved: dict[int, Buffer] = {}

    def move(buffer: Buffer) -> Buffer:
        if buffer.space != "weights":
            return buffer
        at = bisect.bisect_right(starts, buffer.offset) - 1
        if at < 0 or buffer.offset + buffer.size > old[at].offset + len(old[at].data):
            raise LowerError("a step reads weights that are not there")
        if at not in moved:
            moved[at] = store.put(old[at].data)
        return replace(buffer, offset=moved[at].offset + buffer.offset - old[at].offset)

    steps = _mapped(program.steps, move)
    fetches = _mapped(program.fetches, move)
    return replace(program, steps=steps, fetches=fetches, weights=store.weights, weights_size=store.size)


def _mapped(value: Any, move: Callable[[Buffer], Buffer]) -> Any:
    """``value`` (a step, a tuple of them, whatever they hold) with every Buffer in it moved."""
    if isinstance(value, Buffer):
        return move(value)
    if isinstance(value, tuple):
        return tuple(_mapped(v, move) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _mapped(getattr(value, f.name), move) for f in fields(value)})
    return value
