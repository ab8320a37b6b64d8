"""Which size of memory is the cheapest for a function: run at each, on the share of a processor that it stands for.

Lambda gives processor time in proportion to memory, and bills memory times time. So a size is cheap where the function
still has all the processor that it can use. The emulator and the function are held to the share, the caller is not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from builder.console_tables import table
from builder.errors import UsageError
from builder.local import rie
from builder.measure.bench import Spread, Start, started, timed
from builder.measure.held import Held, held
from builder.measure.machine import cpu_name
from builder.pack.bundle import Bundle
from builder.prices import WHOLE_PROCESSOR_MB, Prices, list_prices
from builder.targets import TARGETS, Target, host_target

MEMORY_MB = (442, 885, WHOLE_PROCESSOR_MB, 2 * WHOLE_PROCESSOR_MB)
"""A quarter, a half, one and two processors."""
LEAST_MB, MOST_MB = 128, 10_240


@dataclass(frozen=True)
class Size:
    """What was measured with ``memory`` megabytes. Times are milliseconds, of all rounds.

    ``start``: the cold start with the median total. ``warm``: requests one after the other. ``billed``: of a warm one,
    each rounded up to a millisecond, the mean of a round, and the median of the rounds. ``peak``: bytes of the
    function's process. ``dollars``: of a million warm requests, and ``cold_dollars`` of a million cold starts, by
    Lambda's name for the architecture.
    """

    memory: int
    processors: float
    start: Start
    warm: Spread
    billed: float
    peak: int
    dollars: dict[str, float]
    cold_dollars: dict[str, float]


@dataclass(frozen=True)
class Costs:
    """``left_out``: why, by memory. ``below``: milliseconds that were asked for, None where none were.

    ``cheapest``: megabytes, on the architecture that was measured; ``cheapest_below``: the same of the sizes with which
    nine of ten warm requests are faster than ``below``, None where there is none.
    """

    model: str
    version: str
    target: str
    cpu: str
    python: str
    note: str
    shared_by: str
    rounds: int
    prices: Prices
    sizes: tuple[Size, ...]
    left_out: dict[int, str]
    cheapest: int
    below: float | None
    cheapest_below: int | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON, unrounded."""
        return asdict(self) | {
            "prices": {"region": self.prices.region, "date": self.prices.date, "source": self.prices.sources[0]},
            "left_out": {str(memory): why for memory, why in self.left_out.items()},
        }


@dataclass(frozen=True)
class Round:
    """One cold start, the milliseconds of warm requests after it, and the bytes of the process at most."""

    start: Start
    warm: tuple[float, ...]
    peak: int


def costs(
    bundle: Bundle,
    memory: Sequence[int] = MEMORY_MB,
    *,
    rounds: int = 5,
    seconds: float = 1.0,
    below: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Costs:
    """Start the function ``rounds`` times with each size, the sizes taking turns, and send it requests for ``seconds``.

    Raises UsageError where no size can be measured here, EnvironmentSetupError where nothing can be held to a share of
    a processor or the function does not run, AnswerError where it refuses the request.
    """
    if wrong := [size for size in memory if not LEAST_MB <= size <= MOST_MB]:
        raise UsageError(f"{wrong[0]} MB: Lambda has functions of {LEAST_MB:,} to {MOST_MB:,} MB.")
    target, place = host_target(), held(bundle.layer, say)
    event = rie.default_event(bundle.folder)
    found: dict[int, list[Round]] = {size: [] for size in sorted(set(memory))}
    left_out: dict[int, str] = {}
    with suppress(UsageError):  # a start that is not counted reads every file, and writes missing bytecode
        _round(place, min(found), event, 0)
    for turn in range(rounds):
        for size in (size for size in list(found) if size not in left_out):
            say(f"round {turn + 1} of {rounds}: {size} MB")
            try:
                found[size].append(_round(place, size, event, seconds))
            except UsageError as error:
                left_out[size] = str(error)
            else:
                if found[size][-1].peak > size << 20:
                    left_out[size] = f"the function needs {found[size][-1].peak / 2**20:,.0f} MB."
    sizes = tuple(size_of(size, found[size]) for size in found if size not in left_out)
    if not sizes:
        raise UsageError(f"no size of memory can be measured here: {' '.join(left_out.values())}")
    model = json.loads(bundle.manifest.read_text(encoding="utf-8"))["model"]
    return Costs(
        model=model["name"],
        version=model["version"],
        target=target.name,
        cpu=cpu_name(),
        python=place.python,
        note=place.note,
        shared_by=place.name,
        rounds=rounds,
        prices=list_prices(),
        sizes=sizes,
        left_out=left_out,
        cheapest=cheapest(sizes, target) or 0,
        below=below,
        cheapest_below=None if below is None else cheapest([size for size in sizes if size.warm.p90 < below], target),
    )


def _round(place: Held, memory: int, event: Any, seconds: float) -> Round:
    """One cold start with ``memory`` megabytes, and warm requests for ``seconds``. Raises as ``running`` does."""
    with place.running(memory) as running:
        start = started(running, event)
        warm = tuple(timed(lambda: rie.require_answer(running.invoke(event)), seconds))
        return Round(start, warm, running.peak_rss)


def size_of(memory: int, rounds: Sequence[Round]) -> Size:
    prices = list_prices()
    starts = sorted((one.start for one in rounds), key=lambda start: start.total)
    start = starts[len(starts) // 2]
    billed = median(fmean(max(1, math.ceil(ms)) for ms in one.warm) for one in rounds)
    return Size(
        memory=memory,
        processors=memory / WHOLE_PROCESSOR_MB,
        start=start,
        warm=Spread.of([ms for one in rounds for ms in one.warm]),
        billed=billed,
        peak=max(one.peak for one in rounds),
        dollars={name: prices.million_requests + prices.compute(memory, billed, name) for name in prices.gb_second},
        cold_dollars={name: prices.requests(memory, start.total, name) for name in prices.gb_second},
    )


def cheapest(sizes: Sequence[Size], target: Target) -> int | None:
    """The memory of the cheapest; of two that cost alike, the larger, which is faster."""
    if not sizes:
        return None
    return min(sizes, key=lambda size: (round(size.dollars[target.architecture], 3), -size.memory)).memory


def render(found: Costs) -> str:
    """A table, and which to take."""
    here = next(target for target in TARGETS if target.name == found.target).architecture
    names = sorted(found.prices.gb_second, key=lambda name: name != here)
    head = ("MB", "vCPU", "cold", "p50", "p90", "billed", *names, "cold start")
    rows: list[list[str] | None] = [
        [
            f"{size.memory:,}",
            f"{size.processors:.2f}",
            f"{size.start.total:.0f}",
            f"{size.warm.p50:.1f}",
            f"{size.warm.p90:.1f}",
            f"{size.billed:.1f}",
            *(f"{size.dollars[name]:.2f}" for name in names),
            f"{size.cold_dollars[here]:.2f}",
        ]
        for size in found.sizes
    ]
    cheapest = f"cheapest: {found.cheapest:,} MB"
    if found.below is not None:
        cheapest += f"; with nine of ten warm requests below {found.below:g} ms: "
        cheapest += f"{found.cheapest_below:,} MB" if found.cheapest_below else "none"
    return "\n".join(
        [
            f"{found.model} {found.version}: milliseconds, and US dollars for a million requests "
            f"(list prices of {found.prices.of})",
            "cold: from nothing to the first answer; p50, p90: what callers wait for a warm request; "
            "billed: the mean of that as Lambda rounds it",
            table(head, rows, right=tuple(range(len(head))), indent=0),
            *(f"{memory:,} MB is left out: {why}" for memory, why in found.left_out.items()),
            "",
            cheapest,
            f"Lambda's emulator on {found.cpu}, Python {found.python}; medians of {found.rounds} rounds. Held to a "
            f"share of a processor by {found.shared_by}. {', '.join(names[1:])} was not measured: at this speed.",
            *([found.note] if found.note else []),
        ]
    )
