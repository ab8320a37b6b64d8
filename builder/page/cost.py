"""What a million requests cost in Lambda, from published prices and a time measured here.

Prices are data: ``prices.json`` has them with their region and date, and ``Target.gb_second`` that of a processor.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from builder.targets import Target

PRICES = Path(__file__).with_name("prices.json")

FULL_CPU_MB = 1769
"""Megabytes of memory with which a function has one whole processor; with less it has as much less."""

MEMORY_MB = (256, 512, 1024, 1769, 3008)


def costs(target: Target, handler_ms: float, peak_memory: int) -> dict[str, Any]:
    """US dollars for a million warm requests at several sizes of memory.

    ``handler_ms``: what a request takes on one whole processor. With less memory it takes longer by as much, with more
    no less: a request runs on one thread. Billed is every begun millisecond. ``peak_memory``: bytes; sizes that it does
    not fit into are left out.
    """
    prices = json.loads(PRICES.read_text(encoding="utf-8"))
    rows = []
    for memory in MEMORY_MB:
        if peak_memory <= memory << 20:
            took = handler_ms * max(1.0, FULL_CPU_MB / memory)
            billed = max(1, math.ceil(took))
            dollars = prices["million_requests"] + 1e6 * billed / 1000 * memory / 1024 * target.gb_second
            rows.append({"memory": memory, "ms": took, "billed": billed, "dollars": dollars})
    return {**prices, "gb_second": target.gb_second, "handler_ms": handler_ms, "rows": rows}
