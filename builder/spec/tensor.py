"""What is known of a tensor that crosses a stage: name, dtype and shape."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class TensorSpec:
    """A feed or fetch: ``shape`` is row-major, batch first, and static but for the dimensions ``dynamic``.

    Of these ``shape`` has the most, and the data decides: a fetch ``shape_fetch``, int32 [rank], says how many there
    are. The elements that are there come first, dense and row-major in that shape; zeros fill up the rest.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: tuple[int, ...] = ()

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
        row = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "bytes": self.size}
        return row | ({"dynamic": list(self.dynamic), "shape_fetch": self.shape_fetch} if self.dynamic else {})

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of ``shape`` may be this one."""
        pairs = zip(shape, self.shape, strict=False)
        return len(shape) == len(self.shape) and all(
            size <= most if at in self.dynamic else size == most for at, (size, most) in enumerate(pairs)
        )

    def says(self) -> str:
        """The shape in words: ``[<=24, 2]``."""
        sizes = (f"<={size}" if at in self.dynamic else str(size) for at, size in enumerate(self.shape))
        return f"[{', '.join(sizes)}]"


def c_identifier(name: str) -> str:
    """``name`` with everything that C does not allow in an identifier's tail replaced by ``_``."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)
