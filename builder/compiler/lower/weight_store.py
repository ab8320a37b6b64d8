"""Constants of programs: their places, and the removal of those that no step reads."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from builder.base.errors import LowerError
from builder.compiler.lower.compress import Array, StoredWeights
from builder.compiler.lower.packing import pack_scale, pack_sums
from builder.compiler.lower.program import Program, Weight
from builder.compiler.lower.steps.base import Buffer, align_offset
from builder.compiler.lower.steps.quantisation import Quantisation

LEAST_SHARED_START = 4096
"""The fewest bytes of a constant that is kept as the start of a longer one: fewer would save no page."""


@dataclass
class WeightStore:
    """Constants in the order of their use, from offset ``size`` on; equal bytes share one place if ``share``."""

    share: bool = True
    size: int = 0
    offsets: dict[bytes, int] = field(default_factory=dict)
    weights: list[Weight] = field(default_factory=list)

    def add_constant(self, data: bytes) -> Buffer:
        """Add a constant, or find an equal one, and return its buffer."""
        if not (self.share and data in self.offsets):
            self.offsets[data] = self.size
            self.weights.append(Weight(self.size, data))
            self.size = align_offset(self.size + len(data))
        return Buffer("weights", self.offsets[data], len(data))

    def add_layer(
        self,
        name: str,
        stored: StoredWeights,
        packed: bytes,
        quantisation: Quantisation | None,
        *,
        groups: int = 1,
        joined: int = 1,
        numbers: Array | None = None,
    ) -> dict[str, Any]:
        """Add the weights of layer ``name``, and return the fields of a LayerStep or RecurrentStep that describe them.

        ``packed``: the weights as the kernel reads them. ``joined``: the pixels that are computed as one, whose weights
        are ``numbers``.
        """
        scale = None if stored.scale is None else pack_scale(np.tile(stored.scale, joined), groups=groups)
        sums = None if quantisation is None else pack_sums(stored.numbers if numbers is None else numbers)
        return {
            "weights": self.add_constant(packed),
            "weight_type": stored.type,
            "weight_scale": None if scale is None else self.add_constant(scale),
            "weight_sums": None if sums is None else self.add_constant(sums),
            "quantisation": quantisation,
            "layer": name,
            "kept": stored.kept,
        }


def read_constant(constants: Mapping[int, bytes], buffer: Buffer) -> bytes:
    """Read the bytes of ``buffer`` from ``constants`` by offset; raise LowerError for a part of a constant."""
    data = constants.get(buffer.offset)
    if data is None or len(data) < buffer.size:
        raise LowerError("a step reads a part of a constant")
    return data[: buffer.size]


def drop_unused_weights(program: Program, share: bool = True) -> Program:
    """Return the program with only those weights that it uses; equal ones share one place if ``share``.

    Raises LowerError where a step reads no constant.
    """
    store = WeightStore(share)
    moved = _move_weights(program, store.add_constant)
    return replace(moved, weights=tuple(store.weights), weights_size=store.size)


def merge_weights(programs: Sequence[Program], share: bool = True) -> tuple[Program, ...]:
    """Return the programs with one block of weights, which each of them refers to as a whole.

    A constant that several have is kept once, and one that a longer one begins with (a table's first rows, for a
    shorter text) is kept as its start. Without ``share``, equal weights of one program are kept apart: the first is
    shared with the first of another program, the second with its second. Raises LowerError where a step reads no
    constant.
    """
    homes = _find_shared_starts(programs) if share else {}
    equal: dict[bytes, list[Buffer]] = {}
    store = WeightStore(share=False)
    moved = []
    for program in programs:
        turns: Counter[bytes] = Counter()

        def place(data: bytes, turns: Counter[bytes] = turns) -> Buffer:
            data = homes.get(data, data)
            buffers = equal.setdefault(data, [])
            turn = 0 if share else turns[data]
            turns[data] += 1
            if turn == len(buffers):
                buffers.append(store.add_constant(data))
            return buffers[turn]

        moved.append(_move_weights(program, place))
    return tuple(replace(program, weights=tuple(store.weights), weights_size=store.size) for program in moved)


def _find_shared_starts(programs: Sequence[Program]) -> dict[bytes, bytes]:
    """Map each large constant of the programs to one that begins with it, or to itself."""
    used: set[bytes] = set()

    def note(data: bytes) -> Buffer:
        used.add(data)
        return Buffer("weights", 0, len(data))

    for program in programs:
        _move_weights(program, note)
    homes: dict[bytes, bytes] = {}
    longer = b""
    # In this order a constant comes before a shorter one that it begins with, as do all those between the two.
    for data in sorted((data for data in used if len(data) >= LEAST_SHARED_START), reverse=True):
        longer = longer if longer.startswith(data) else data
        homes[data] = longer
    return homes


def _move_weights(program: Program, place: Callable[[bytes], Buffer]) -> Program:
    """Move each weight that ``program`` uses to its buffer from ``place``, which is called once for each."""
    old = sorted(program.weights, key=lambda w: w.offset)
    starts = [w.offset for w in old]
    moved: dict[int, Buffer] = {}

    def move(buffer: Buffer) -> Buffer:
        if buffer.space != "weights":
            return buffer
        index = bisect.bisect_right(starts, buffer.offset) - 1
        if index < 0 or buffer.offset + buffer.size > old[index].offset + len(old[index].data):
            raise LowerError("a step reads weights that are not there")
        if index not in moved:
            moved[index] = place(old[index].data)
        return replace(buffer, offset=moved[index].offset + buffer.offset - old[index].offset)

    return program.with_buffers(move)
