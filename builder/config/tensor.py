"""Description of a tensor between stages: name, dtype and shape."""

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

    A floating-point index is rounded toward zero.
    """

    first: int
    count: int
    period: int
    minimum: int
    maximum: int


@dataclass(frozen=True)
class TensorSpec:
    """A feed or fetch: ``shape`` is row-major, batch first, and static except for the dimensions ``dynamic``.

    For these ``shape`` has the largest size, and the data decides: a fetch ``shape_fetch``, int32 [rank], has the
    actual sizes. The actual elements come first, dense and row-major in that shape; zeros fill up the rest.
    ``ranges``: those of the elements of a feed that are indices; the library refuses others.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: tuple[int, ...] = ()
    ranges: tuple[IndexRange, ...] = ()

    @property
    def elements(self) -> int:
        """Number of its elements, the largest one if the data decides."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of the dense row-major tensor, the largest one if the data decides."""
        return self.elements * ITEM_SIZES[self.dtype]

    @property
    def shape_fetch(self) -> str:
        """Name of the fetch with this one's actual shape; empty if its size is fixed."""
        return f"{self.name}_shape" if self.dynamic else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the tensor's entry in a model's description."""
        row: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "bytes": self.size}
        if self.dynamic:
            row |= {"dynamic": list(self.dynamic), "shape_fetch": self.shape_fetch}
        if [index_range.period for index_range in self.ranges] == [1]:
            row |= {"minimum": self.ranges[0].minimum, "maximum": self.ranges[0].maximum}
        elif self.ranges:
            row["ranges"] = [asdict(index_range) for index_range in self.ranges]
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> TensorSpec:
        """Read the result of ``to_dict``."""
        ranges = [IndexRange(**entry) for entry in row.get("ranges", ())]
        if "minimum" in row:
            ranges = [IndexRange(0, 1, 1, row["minimum"], row["maximum"])]
        return cls(row["name"], row["dtype"], tuple(row["shape"]), tuple(row.get("dynamic", ())), tuple(ranges))

    def indices_beyond(self) -> Iterator[tuple[int, int]]:
        """Yield an index beyond each end of each range, after the number of an element that must not have it."""
        lowest, highest = integer_limits(self.dtype if self.dtype in INTEGERS else "int64")
        for index_range in self.ranges:
            last = self.elements - index_range.period + index_range.first + index_range.count - 1
            if index_range.maximum < highest:
                yield index_range.first, index_range.maximum + 1
            if index_range.minimum > lowest:
                yield last, index_range.minimum - 1

    def accepts_shape(self, shape: tuple[int, ...]) -> bool:
        """Return whether a tensor of ``shape`` may be this one."""
        pairs = zip(shape, self.shape, strict=False)
        return len(shape) == len(self.shape) and all(
            size <= most if at in self.dynamic else size == most for at, (size, most) in enumerate(pairs)
        )

    def describe_shape(self) -> str:
        """Describe the shape in words: ``[<=24, 2]``."""
        sizes = (f"<={size}" if at in self.dynamic else str(size) for at, size in enumerate(self.shape))
        return f"[{', '.join(sizes)}]"


def c_identifier(name: str) -> str:
    """Make a C identifier of ``name``: ``_`` for every other character, and before a leading digit."""
    identifier = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{identifier}" if identifier[:1].isdigit() else identifier
