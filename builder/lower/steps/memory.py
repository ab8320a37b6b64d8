"""Where the bytes of steps lie, and what a field of a step says about its use of them.

Offsets and sizes are bytes, strides are elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

ALIGNMENT = 64
"""XLA's kernels assume every buffer is aligned to this many bytes (``min_alignment`` in the thunk)."""

Space = Literal["arena", "weights", "feed"]


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes at ``offset`` in the writable arena or in the read-only weights.

    In the space "feed" they are those of feed number ``offset``, where the caller has them, and of any alignment.
    """

    space: Space
    offset: int
    size: int

    def overlaps(self, other: Buffer) -> bool:
        """Whether any byte belongs to both."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True)
class View:
    """A float32 NHWC tensor inside a buffer that may have a halo or padded pixels; strides in floats.

    ``first`` is the offset of element [0, 0, 0, 0] from the buffer's start.
    """

    buffer: Buffer
    first: int
    image: int
    row: int
    pixel: int


Use = Literal["reads", "writes", "updates", "scratch"]

T = TypeVar("T")

Reads = Annotated[T, "reads"]
"""The type of a field with buffers that the step reads, its weights among them. ``T`` is a Buffer, or anything that
holds some: a View, a tuple, a dataclass whose own fields do not say how they are used."""
Writes = Annotated[T, "writes"]
"""The type of a field with buffers that the step writes, whole."""
Updates = Annotated[T, "updates"]
"""The type of a field with buffers that the step reads and then writes."""
Scratch = Annotated[T, "scratch"]
"""The type of a field with memory that the step needs only while it runs."""
