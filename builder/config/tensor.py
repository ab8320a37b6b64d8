"""What is known of a tensor that crosses a stage: name, dtype and shape."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

ITEM_SIZES: dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float32": 4,
    "float64": 8,
}
"""Bytes per element of every dtype a feed or fetch may have, by NumPy's name."""

INTEGERS = tuple(dtype for dtype in ITEM_SIZES if "int" in dtype)


def integer_limits(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest int64 that an integer type can hold."""
    bits = 8 * ITEM_SIZES[dtype]
    return (0, (1 << min(bits, 63)) - 1) if dtype.startswith("u") else (-1 << bits - 1, (1 << bits - 1) - 1)


@dataclass(frozen=True)
class IndexRange:
    """A range of indices in a feed: ``count`` elements from ``first`` on, and again after each ``period`` of elements.

    An index of floating point is rounded toward zero.
    """

    first: int
    count: int
    period: int
    minimum: int
    maximum: int


@dataclass(frozen=True)
class TensorSpec:
    """A feed or fetch: ``shape`` is row-major, batch first, and static but for the dimensions ``dynamic``.

    Of these ``shape`` has the most, and the data decides: a fetch ``shape_fetch``, int32 [rank], says how many there
    are. The elements that are there come first, dense and row-major in that shape; zeros fill up the rest.
    ``ranges``: of the elements of a feed that are indices; the library refuses others.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: tuple[int, ...] = ()
    ranges: tuple[IndexRange, ...] = ()

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of the dense row-major tensor, the largest where the data decides."""
        return self.elements * ITEM_SIZES[self.dtype]

    @property
    def shape_fetch(self) -> str:
        """The name of the fetch that says how large this one is; empty where its size is fixed."""
        return f"{self.name}_shape" if self.dynamic else ""

    def to_dict(self) -> dict[str, Any]:
        """What a model's description says of it."""
        row: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "bytes": self.size}
        if self.dynamic:
            row |= {"dynamic": list(self.dynamic), "shape_fetch": self.shape_fetch}
        if [one.period for one in self.ranges] == [1]:
            row |= {"minimum": self.ranges[0].minimum, "maximum": self.ranges[0].maximum}
        elif self.ranges:
            row["ranges"] = [asdict(one) for one in self.ranges]
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> TensorSpec:
        """Read what ``to_dict`` gave."""
        ranges = [IndexRange(**one) for one in row.get("ranges", ())]
        if "minimum" in row:
            ranges = [IndexRange(0, 1, 1, row["minimum"], row["maximum"])]
        return cls(row["name"], row["dtype"], tuple(row["shape"]), tuple(row.get("dynamic", ())), tuple(ranges))

    def indices_beyond(self) -> Iterator[tuple[int, int]]:
        """Yield an index beyond each end of each range, after the number of an element that it must not be in."""
        lowest, highest = integer_limits(self.dtype if self.dtype in INTEGERS else "int64")
        for one in self.ranges:
            last = self.elements - one.period + one.first + one.count - 1
            if one.maximum < highest:
                yield one.first, one.maximum + 1
            if one.minimum > lowest:
                yield last, one.minimum - 1

    def accepts_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of ``shape`` may be this one."""
        pairs = zip(shape, self.shape, strict=False)
        return len(shape) == len(self.shape) and all(
            size <= most if at in self.dynamic else size == most for at, (size, most) in enumerate(pairs)
        )

    def describe_shape(self) -> str:
        """The shape in words: ``[<=24, 2]``."""
        sizes = (f"<={size}" if at in self.dynamic else str(size) for at, size in enumerate(self.shape))
        return f"[{', '.join(sizes)}]"


def c_identifier(name: str) -> str:
    """Make an identifier of C of ``name``: ``_`` for every other character, and before a leading digit."""
    identifier = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{identifier}" if identifier[:1].isdigit() else identifier
