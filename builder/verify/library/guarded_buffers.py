"""Guarded buffers, with which a library is called when it is verified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

GUARD = 64
"""Bytes around every buffer that the library must leave alone."""
GUARD_BYTE = 0xC3
POISONS = (0xA5, 0x5A)
"""Bytes of fetches before a run; there are two values, so that unwritten bytes show."""


@dataclass(frozen=True)
class GuardedBuffer:
    """``size`` bytes inside a guarded block, ``offset`` bytes off a 64-byte boundary."""

    block: Bytes
    start: int
    size: int

    @classmethod
    def from_data(cls, data: Bytes, offset: int) -> GuardedBuffer:
        block = np.full(data.size + 2 * GUARD + 128, GUARD_BYTE, np.uint8)
        start = GUARD + (-(block.ctypes.data + GUARD)) % 64 + offset
        block[start : start + data.size] = data
        return cls(block, start, data.size)

    @property
    def data(self) -> Bytes:
        return self.block[self.start : self.start + self.size]

    @property
    def intact(self) -> bool:
        """True if all bytes outside the data are unchanged."""
        outside = (self.block[: self.start], self.block[self.start + self.size :])
        return all(bool((part == GUARD_BYTE).all()) for part in outside)


@dataclass(frozen=True)
class BufferSlot:
    """A buffer as an argument: with the size that the call claims, or as a null pointer."""

    buffer: GuardedBuffer
    size: int
    null: bool = False

    @property
    def address(self) -> int:
        """Address of the data in this process."""
        return int(self.buffer.block.ctypes.data) + self.buffer.start
