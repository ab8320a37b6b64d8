"""What a million requests cost in Lambda, from published prices and a time measured here."""

from __future__ import annotations

import math
from typing import Any

from builder.prices import WHOLE_PROCESSOR_MB, list_prices
from builder.targets import Target

MEMORY_MB = (256, 512, 1024, WHOLE_PROCESSOR_MB, 3008)


def costs(target: Target, handler_ms: float, peak_memory: int) -> dict[str, Any]:
    """US dollars for a million warm requests at several sizes of memory.

    ``handler_ms``: what a request takes on one whole processor. With less memory it takes longer by as much, with more
    no less: a request runs on one thread. Billed is every begun millisecond. ``peak_memory``: bytes; sizes that it does
    not fit into are left out.
    """
    prices = list_prices()
    rows = []
    for memory in MEMORY_MB:
        if peak_memory <= memory << 20:
            took = handler_ms * max(1.0, WHOLE_PROCESSOR_MB / memory)
            dollars = prices.requests(memory, took, target.architecture)
            rows.append({"memory": memory, "ms": took, "billed": max(1, math.ceil(took)), "dollars": dollars})
    return {
        "region": prices.region,
        "date": prices.date,
        "source": prices.sources[0],
        "million_requests": prices.million_requests,
        "gb_second": prices.gb_second[target.architecture],
        "handler_ms": handler_ms,
        "rows": rows,
    }
