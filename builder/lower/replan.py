"""Memory planned anew, instead of XLA's plan: each value has a place for as long as it lives."""

from __future__ import annotations

from dataclasses import dataclass, field

from builder.lower.buffers import align
from builder.lower.program import Buffer, Weight


@dataclass
class Storage:
    """Bytes in the arena that are in use from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int
    offset: int = -1

    @property
    def buffer(self) -> Buffer:
        return Buffer("arena", self.offset, self.size)

    def use(self, step: int) -> None:
        """Extend the life of the storage to step number ``step``."""
        self.first, self.last = min(self.first, step), max(self.last, step)


def place(storages: list[Storage]) -> int:
    """Give every storage an offset so that none overlaps another that lives at the same time.

    Largest first, each in the lowest gap that is free for its whole life. Returns the arena's size, in bytes.
    """
    placed: list[Storage] = []
    for storage in sorted(storages, key=lambda s: (-s.size, s.first, s.last)):
        offset = 0
        alive = [o for o in placed if o.first <= storage.last and storage.first <= o.last]
        for other in sorted(alive, key=lambda o: o.offset):
            if offset + storage.size <= other.offset:
                break
            offset = max(offset, align(other.offset + other.size))
        storage.offset = offset
        placed.append(storage)
    return align(max((s.offset + s.size for s in storages), default=0))


@dataclass
class WeightStore:
    """Collects constants in the order they are used; equal bytes share one place if ``share``."""

    share: bool = True
    offsets: dict[bytes, int] = field(default_factory=dict)
    found: list[Weight] = field(default_factory=list)
    size: int = 0

    def put(self, data: bytes) -> Buffer:
        """Add a constant, or find an equal one. Returns its place."""
        if not (self.share and data in self.offsets):
            self.offsets[data] = self.size
            self.found.append(Weight(self.size, data))
            self.size = align(self.size + len(data))
        return Buffer("weights", self.offsets[data], len(data))

    @property
    def weights(self) -> tuple[Weight, ...]:
        return tuple(self.found)
