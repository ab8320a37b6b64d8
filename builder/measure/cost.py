"""Cost of a million requests: Lambda's list prices, times the measured warm request and cold start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from builder.base.console_tables import format_table
from builder.base.errors import UsageError
from builder.base.targets import Target, host_target
from builder.measure.bench import FunctionTimes, measure_function
from builder.measure.machine import cpu_name
from builder.measure.prices import MEMORY_MB, WHOLE_PROCESSOR_MB, bill_time, load_prices
from builder.package.bundle import Bundle

LEAST_MB, MOST_MB = 128, 10_240
_POWER_TUNING = "https://github.com/alexcasalboni/aws-lambda-power-tuning"


@dataclass(frozen=True)
class MemorySize:
    """The estimated cost of a function with so much memory."""

    memory: int
    """Megabytes."""
    ms: float
    """Milliseconds of a warm request."""
    billed: int
    """Milliseconds, each begun one."""
    dollars: float
    """US dollars of a million warm requests."""


@dataclass(frozen=True)
class LambdaPrices:
    """US dollars, by Lambda's list prices."""

    region: str
    date: str
    source: str
    million_requests: float
    gb_second: float


@dataclass(frozen=True)
class RequestCost:
    """The cost of a function by its memory, and the measured times that it follows from."""

    model: str
    version: str
    target: str
    cpu: str
    function: FunctionTimes
    million_starts: float
    """US dollars of a million cold starts, with one whole processor."""
    prices: LambdaPrices
    sizes: tuple[MemorySize, ...]


def measure_cost(bundle: Bundle, memory: Sequence[int] = MEMORY_MB) -> RequestCost:
    """Measure the function of ``bundle`` in Lambda's emulator, and price it at each size of ``memory`` that it fits.

    Raises UsageError for a size that Lambda does not have or that is too small, and as ``measure_function`` does.
    """
    for size in memory:
        if not LEAST_MB <= size <= MOST_MB:
            raise UsageError(f"{size} MB: Lambda has functions of {LEAST_MB:,} to {MOST_MB:,} MB.")
    target = host_target()
    function = measure_function(bundle, starts=3, seconds=1.0)
    sizes = estimate_sizes(target, function.handler, function.memory, memory)
    if not sizes:
        raise UsageError(f"the function takes {function.memory / 2**20:,.0f} MB: give it more with --memory.")
    model = json.loads(bundle.manifest.read_text(encoding="utf-8"))["model"]
    return RequestCost(
        model=model["name"],
        version=model["version"],
        target=target.name,
        cpu=cpu_name(),
        function=function,
        million_starts=load_prices().price_requests(WHOLE_PROCESSOR_MB, function.start.total, target.architecture),
        prices=prices_of(target),
        sizes=sizes,
    )


def prices_of(target: Target) -> LambdaPrices:
    """Return the list prices of functions on ``target``."""
    prices = load_prices()
    per_second = prices.gb_second[target.architecture]
    return LambdaPrices(prices.region, prices.date, prices.sources[0], prices.million_requests, per_second)


def estimate_sizes(
    target: Target, handler_ms: float, peak_memory: int, memory: Sequence[int] = MEMORY_MB
) -> tuple[MemorySize, ...]:
    """Price a million warm requests at several sizes of memory, in megabytes.

    ``handler_ms``: the time of a request on one whole processor. With less memory it takes longer by as much, with more
    no less: a request runs on one thread. ``peak_memory``: bytes; sizes that are smaller are left out.
    """
    prices = load_prices()
    times = {size: handler_ms * max(1.0, WHOLE_PROCESSOR_MB / size) for size in sorted(set(memory))}
    return tuple(
        MemorySize(size, ms, bill_time(ms), prices.price_requests(size, ms, target.architecture))
        for size, ms in times.items()
        if peak_memory <= size << 20
    )


def report_cost(target: Target, function: FunctionTimes) -> dict[str, Any]:
    """Return the cost for the page of `coldforge report`."""
    rows = estimate_sizes(target, function.handler, function.memory)
    return asdict(prices_of(target)) | {"handler_ms": function.handler, "rows": [asdict(row) for row in rows]}


def format_cost(cost: RequestCost) -> str:
    """Return a table of the sizes, and the sources of the figures."""
    function, start = cost.function, cost.function.start
    rows = [[f"{size.memory:,}", f"{size.ms:.1f}", f"{size.billed:,}", f"{size.dollars:.2f}"] for size in cost.sizes]
    return "\n".join(
        [
            f"{cost.model} {cost.version}: US dollars for a million warm requests, by memory (list prices of "
            f"{cost.prices.region}, {cost.prices.date})",
            format_table(("MB", "ms", "billed ms", "USD"), rows, right=(0, 1, 2, 3), indent=0),
            "",
            f"A cold start takes {start.total:.0f} ms: {cost.million_starts:.2f} USD for a million with "
            f"{WHOLE_PROCESSOR_MB:,} MB.",
            f"Measured in Lambda's emulator on {cost.cpu}, Python {function.python}, with {WHOLE_PROCESSOR_MB:,} MB: "
            "one processor. With less memory Lambda gives less of it, and the times are estimated in proportion.",
            f"AWS Lambda Power Tuning measures a deployed function: {_POWER_TUNING}",
            *([function.note] if function.note else []),
        ]
    )
