"""Numbers as C reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def float_literal(value: float) -> str:
    """Exactly, as hexadecimal; infinities by the compiler's own name."""
    if math.isinf(value):
        return "-__builtin_inff()" if value < 0 else "__builtin_inff()"
    return f"{float(value).hex()}f"


def list_literal(values: Iterable[int | bool]) -> str:
    """What initialises an array of whole numbers."""
    return "{" + ", ".join(str(int(v)) for v in values) + "}"
