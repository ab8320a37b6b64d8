"""Drop the constants that no step reads any more, and close the gaps between the others."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from builder.errors import LowerError
from builder.lower.program import Buffer, Program
from builder.lower.replan import WeightStore


def compact(program: Program, share: bool = True) -> Program:
    """The same program over only those weights that it uses; equal ones share one place if ``share``.

    Raises LowerError where a step reads no constant.
    """
    store = WeightStore(share)
    return replace(_over(program, store.put), weights=store.weights, weights_size=store.size)


def merge_weights(programs: Sequence[Program], share: bool = True) -> tuple[Program, ...]:
    """The programs over one block of weights, each naming all of it. A constant that several have is kept once.

    Without ``share``, equal weights of one program are kept separately: the first is shared with the first of another
    program, the second with its second.
    Raises LowerError where a step reads no constant.
    """
    equal: dict[bytes, list[Buffer]] = {}
    store = WeightStore(share=False)
    moved = []
    for program in programs:
        turns: Counter[bytes] = Counter()

        def place(data: bytes, turns: Counter[bytes] = turns) -> Buffer:
            found = equal.setdefault(data, [])
            turn = 0 if share else turns[data]
            turns[data] += 1
            if turn == len(found):
                found.append(store.put(data))
            return found[turn]

        moved.append(_over(program, place))
    return tuple(replace(program, weights=store.weights, weights_size=store.size) for program in moved)


def _over(program: Program, place: Callable[[bytes], Buffer]) -> Program:
    """``program`` with each of the weights that it uses where ``place`` puts them; it is asked once for each."""
    old = sorted(program.weights, key=lambda w: w.offset)
    starts = [w.offset for w in old]
    moved: dict[int, Buffer] = {}

    def move(buffer: Buffer) -> Buffer:
        if buffer.space != "weights":
            return buffer
        at = bisect.bisect_right(starts, buffer.offset) - 1
        if at < 0 or buffer.offset + buffer.size > old[at].offset + len(old[at].data):
            raise LowerError("a step reads weights that are not there")
        if at not in moved:
            moved[at] = place(old[at].data)
        return replace(buffer, offset=moved[at].offset + buffer.offset - old[at].offset)

    return replace(program, steps=_mapped(program.steps, move), fetches=_mapped(program.fetches, move))


def _mapped(value: Any, move: Callable[[Buffer], Buffer]) -> Any:
    """``value`` (a step, a tuple of them, whatever they hold) with every Buffer in it moved."""
    if isinstance(value, Buffer):
        return move(value)
    if isinstance(value, tuple):
        return tuple(_mapped(v, move) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _mapped(getattr(value, f.name), move) for f in fields(value)})
    return value
