"""Plan of a batch run: the inputs of one invocation, and the cost and time of all. It asks no service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from builder.measure.prices import WHOLE_PROCESSOR_MB, load_prices

READ_MS = 50.0
"""Milliseconds until an object of S3 arrives. Assumed: AWS speaks of 100 ms at most, and tens are usual."""
READ_AHEAD = 8
"""Number of objects that the function reads at once, while it answers another: ``handler/map_batch.py``."""
PREFIX_READS = 5500
"""Objects a second that S3 delivers below one prefix, at least; more only after it has been busy for a while.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
"""
OVERHEAD_MS = 150.0
"""Milliseconds of an invocation besides its inputs: Step Functions' call, and writing the part. Assumed."""
WORK_SECONDS = 20.0
"""Approximate work of one invocation: long beside its overhead, and short beside what a failure loses."""
TIMEOUT_SHARE = 0.5
"""Share of the function's Timeout that a batch may take: some inputs take longer than most."""
ANSWERS_SHARE = 0.075
"""Share of the function's memory for the text of a batch's answers, until they are written: half of what the function
gives them (``handler/map_batch.py``, ``handler/budget.py``), as some are longer than most."""
MOST_ITEMS = 1000
"""Largest number of items of an invocation."""
INPUT_BYTES = 200_000
"""Largest size of a batch in the list. Step Functions passes on 262,144 bytes, including the rest of the event."""


@dataclass(frozen=True)
class BatchTimes:
    """Times in milliseconds on one whole processor.

    ``ms``: the time of one run with all that the function does for it, by the number of items, for the batches that the
    model was built for. ``cold_ms``: the time of a cold start. ``characters``: the length of an answer's JSON, or 0
    where it is unknown.
    """

    ms: Mapping[int, float]
    cold_ms: float
    characters: float = 0.0


@dataclass(frozen=True)
class Capacity:
    """One instance of the function: its memory in megabytes, its timeout in seconds, and US dollars a GB-second."""

    memory: int
    timeout: int
    gb_second: float


@dataclass(frozen=True)
class Workload:
    """The work to plan. ``bytes``: the size of all items in the list; ``concurrency``: invocations at once.

    ``fetched``: whether items are objects in S3, and not the requests themselves.
    """

    items: int
    bytes: int
    times: BatchTimes
    function: Capacity
    concurrency: int
    fetched: bool = True


@dataclass(frozen=True)
class BatchPlan:
    """``together``: items of one run; ``per_invocation``: of one batch, at most.

    ``seconds``: of a full batch; ``minutes``: until all is done, if nothing is throttled. ``reads_per_second``: objects
    of S3, while all are at work. Dollars without taxes, the free tier, logs and the storage of results.
    """

    items: int
    together: int
    per_invocation: int
    invocations: int
    seconds: float
    gb_seconds: float
    transitions: int
    concurrency: int
    minutes: float
    reads_per_second: float
    compute_dollars: float
    invocation_dollars: float
    transition_dollars: float
    storage_dollars: float
    prices: str  # Prices depend on region and date.

    @property
    def dollars(self) -> float:
        """Price of the whole run in US dollars."""
        return self.compute_dollars + self.invocation_dollars + self.transition_dollars + self.storage_dollars

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the total price, for JSON."""
        return asdict(self) | {"dollars": self.dollars}


def plan_batches(load: Workload, per_invocation: int | None = None) -> BatchPlan:
    """Plan ``load``, which has at least one item. ``per_invocation``: the number that a person chose, if any."""
    together, item_ms = _choose_cheapest_run(load)
    most = per_invocation or _choose_batch_size(load, item_ms, together)
    invocations = math.ceil(load.items / most)
    busy = min(load.concurrency, invocations)
    work_ms = load.items * item_ms + invocations * OVERHEAD_MS + busy * load.times.cold_ms
    gb_seconds = work_ms / 1000 * load.function.memory / 1024
    seconds = (min(most, load.items) * item_ms + OVERHEAD_MS) / 1000
    transitions = 1 + invocations  # Step Functions counts each state that is entered: the map, and each batch's task.
    prices = load_prices()
    reads = load.items if load.fetched else 0
    return BatchPlan(
        items=load.items,
        together=together,
        per_invocation=most,
        invocations=invocations,
        seconds=seconds,
        gb_seconds=gb_seconds,
        transitions=transitions,
        concurrency=load.concurrency,
        minutes=(math.ceil(invocations / load.concurrency) * seconds + load.times.cold_ms / 1000) / 60,
        reads_per_second=busy * min(most, load.items) / seconds if load.fetched else 0.0,
        compute_dollars=gb_seconds * load.function.gb_second,
        invocation_dollars=invocations / 1e6 * prices.million_requests,
        transition_dollars=transitions / 1e3 * prices.thousand_transitions,
        storage_dollars=reads / 1e3 * prices.thousand_reads + invocations / 1e3 * prices.thousand_writes,
        prices=prices.edition,
    )


def _choose_cheapest_run(load: Workload) -> tuple[int, float]:
    """Return the number of items per run that makes an item cheapest, and the milliseconds of an item then."""
    slower, ms = max(1.0, WHOLE_PROCESSOR_MB / load.function.memory), load.times.ms
    together = min(ms, key=lambda batch: (ms[batch] / batch, batch))
    read = READ_MS / READ_AHEAD if load.fetched else 0.0
    return together, max(ms[together] / together * slower, read)


def _choose_batch_size(load: Workload, item_ms: float, together: int) -> int:
    """Return the items of an invocation: as time, memory and an event's size allow, and so that all instances work."""
    seconds = min(WORK_SECONDS, load.function.timeout * TIMEOUT_SHARE) - OVERHEAD_MS / 1000
    by_time = int(seconds * 1000 / item_ms)
    by_bytes = INPUT_BYTES * load.items // max(load.bytes, 1)
    by_memory = int(load.function.memory * 2**20 * ANSWERS_SHARE / max(load.times.characters, 1))
    by_work = math.ceil(load.items / load.concurrency)
    most = max(1, min(by_time, by_bytes, by_memory, by_work, MOST_ITEMS))
    return max(together, most // together * together) if most >= together else most


def describe_plan(plan: BatchPlan) -> str:
    """Describe the plan for a person."""
    lines = [
        f"items             {plan.items:,}, {plan.together} in a run",
        f"invocations       {plan.invocations:,}, each with up to {plan.per_invocation} items for {plan.seconds:.1f} s",
        f"GB-seconds        {plan.gb_seconds:,.0f}",
        f"state transitions {plan.transitions:,}",
        f"time              {plan.minutes:,.1f} minutes with {plan.concurrency} at once, if nothing is throttled",
        f"cost              {plan.dollars:,.2f} USD: function {plan.compute_dollars + plan.invocation_dollars:,.2f}, "
        f"Step Functions {plan.transition_dollars:,.2f}, S3 {plan.storage_dollars:,.2f} (list prices of {plan.prices})",
    ]
    if plan.reads_per_second > PREFIX_READS:
        often = f"{plan.reads_per_second:,.0f} objects a second, and S3 delivers {PREFIX_READS:,} below one prefix"
        lines.append(f"S3 may throttle   {often}; take fewer at once")
    return "\n".join(lines)
