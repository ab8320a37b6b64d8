"""AWS's list prices, which are data: ``prices.json`` has all of them, with their region, date and sources."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LIST = Path(__file__).with_name("prices.json")

WHOLE_PROCESSOR_MB = 1769
"""Megabytes of memory with which a function has one whole processor; its share grows with memory.
https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html"""

MEMORY_MB = (256, 512, 1024, WHOLE_PROCESSOR_MB, 3008)
"""Sizes of memory, in megabytes, that a function's cost is shown for."""


@dataclass(frozen=True)
class PriceList:
    """US dollars, without taxes and the free tier. ``gb_second``: Lambda's price, by its name for the architecture.

    ``thousand_transitions``: of Step Functions. ``thousand_reads``, ``thousand_writes``: requests to S3.
    """

    region: str
    date: str
    sources: tuple[str, ...]
    million_requests: float
    gb_second: Mapping[str, float]
    thousand_transitions: float
    thousand_reads: float
    thousand_writes: float

    @property
    def edition(self) -> str:
        """The prices' region and date."""
        return f"{self.region}, {self.date}"

    def price_requests(self, memory: int, ms: float, architecture: str) -> float:
        """Price a million requests of ``ms`` each, with ``memory`` megabytes. Each begun millisecond is billed."""
        return self.million_requests + 1e6 * bill_time(ms) / 1000 * memory / 1024 * self.gb_second[architecture]


def bill_time(ms: float) -> int:
    """Return the milliseconds that Lambda bills for a request: each begun one."""
    return max(1, math.ceil(ms))


def load_prices() -> PriceList:
    """Read the prices of ``prices.json``."""
    prices = json.loads(_LIST.read_text(encoding="utf-8"))
    return PriceList(**prices | {"sources": tuple(prices["sources"])})
