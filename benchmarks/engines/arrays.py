"""A sample's bytes as arrays: those of each feed follow those of the one before, in the order of their names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def arrays(data: bytes, feeds: Mapping[str, tuple[Any, Sequence[int]]]) -> dict[str, Any]:
    """``feeds``: dtype and shape by name. The arrays are read-only."""
    found, place = {}, 0
    for name in sorted(feeds):
        dtype, shape = feeds[name]
        found[name] = np.frombuffer(data, dtype, math.prod(shape), place).reshape(shape)
        place += found[name].nbytes
    return found
