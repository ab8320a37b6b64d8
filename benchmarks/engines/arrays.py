"""The arrays in a sample's bytes, which has the feeds one after the other, in the order of their names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def arrays(data: bytes, feeds: Mapping[str, tuple[Any, Sequence[int]]]) -> dict[str, Any]:
    """Return the read-only arrays in ``data`` by name. ``feeds``: dtype and shape by name."""
    by_name, place = {}, 0
    for name in sorted(feeds):
        dtype, shape = feeds[name]
        by_name[name] = np.frombuffer(data, dtype, math.prod(shape), place).reshape(shape)
        place += by_name[name].nbytes
    return by_name
