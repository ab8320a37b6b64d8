"""A plan of memory in place of XLA's: each value has a place for as long as it lives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from builder.compiler.lower.steps.base import Buffer, align_offset

PAGE = 4096
ROOM = 1 << 48
"""The distance between storages' addresses before the arena is planned: more bytes than any of them has."""


@dataclass
class Storage:
    """Bytes in the arena that are in use from step ``first`` to step ``last``, both included.

    ``alone``: the number of leading bytes that a run on one thread touches; None for all. The rest of a layer's scratch
    is for further threads. ``feed``: the number of a feed that is read from the caller's memory. ``number``: the index
    of the storage in the list that ``place_storages`` plans.
    """

    size: int
    first: int
    last: int
    offset: int = -1
    alone: int | None = None
    feed: int | None = None
    number: int = 0

    @property
    def buffer(self) -> Buffer:
        """The bytes as a buffer; in the arena, at an address of its own until ``resolve_buffer`` gives the offset."""
        if self.feed is not None:
            return Buffer("feed", self.feed, self.size)
        return Buffer("arena", self.number * ROOM, self.size)

    @property
    def touched(self) -> int:
        """The number of bytes that a run on one thread touches."""
        return self.size if self.alone is None else self.alone

    def extend_life(self, step: int) -> None:
        """Extend the life of the storage to step number ``step``."""
        self.first, self.last = min(self.first, step), max(self.last, step)


_ORDERS: tuple[Callable[[Storage], tuple[float, ...]], ...] = (
    lambda s: (-s.size, s.first, s.last),
    lambda s: (s.touched < s.size, -s.size, s.first, s.last),
    lambda s: (s.first - s.last, -s.touched, s.first),
)
"""The largest first; the same with scratch after all values; the longest life first. No order is always best."""


def place_storages(storages: list[Storage]) -> tuple[int, int]:
    """Give every storage an offset, so that none overlaps another that lives at the same time.

    Each storage in turn gets the lowest gap that is free for its whole life. Where scratch is for several threads,
    several orders are tried. The best is that by which a run on one thread touches the fewest pages: a function waits
    1.5 to 2 µs for the first use of each. Returns the arena's size, and the bytes at its beginning that such a run
    touches without a gap.
    """
    several = any(storage.touched < storage.size for storage in storages)
    orders = _ORDERS if several else _ORDERS[:1]
    best = min(orders, key=lambda order: _try_order(storages, order))
    _, size = _try_order(storages, best)
    touched = find_touched_pages(storages)
    end = next(page for page in count() if page not in touched)
    return size, min(end * PAGE, size)


def _try_order(storages: list[Storage], order: Callable[[Storage], tuple[float, ...]]) -> tuple[int, int]:
    """Place the storages; return the number of pages that a run on one thread touches, and the arena's bytes."""
    placed: list[Storage] = []
    for storage in sorted(storages, key=order):
        offset = 0
        alive = [o for o in placed if o.first <= storage.last and storage.first <= o.last]
        for other in sorted(alive, key=lambda o: o.offset):
            if offset + storage.size <= other.offset:
                break
            offset = max(offset, align_offset(other.offset + other.size))
        storage.offset = offset
        placed.append(storage)
    return len(find_touched_pages(storages)), align_offset(max((s.offset + s.size for s in storages), default=0))


def resolve_buffer(storages: Sequence[Storage], buffer: Buffer) -> Buffer:
    """Return ``buffer`` at its final offset in the arena, once every storage has its own."""
    if buffer.space != "arena":
        return buffer
    return replace(buffer, offset=storages[buffer.offset // ROOM].offset + buffer.offset % ROOM)


def find_touched_pages(storages: Iterable[Storage]) -> set[int]:
    """Return the numbers of the arena's pages that a run on one thread touches; the arena may begin inside a page."""
    touched: set[int] = set()
    for storage in storages:
        touched.update(range(storage.offset // PAGE, -(-(storage.offset + storage.touched) // PAGE)))
    return touched
