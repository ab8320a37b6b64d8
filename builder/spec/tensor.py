"""What is known of a tensor that crosses a stage: name, dtype and static shape."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

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
    """A feed or fetch: ``shape`` is fully static, row-major, batch first."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of the dense row-major tensor."""
        return self.elements * ITEM_SIZES[self.dtype]


def c_identifier(name: str) -> str:
    """``name`` with everything that C does not allow in an identifier's tail replaced by ``_``."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)
