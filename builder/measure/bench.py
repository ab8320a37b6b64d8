"""Speed of a bundle on this machine: its library in this process, and the function with it in Lambda's emulator.

Nothing else should run at the same time. The library gets one seeded random input; the function gets the request that
``coldforge invoke`` sends.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from builder.base.console_tables import format_table
from builder.base.errors import EnvironmentSetupError
from builder.config.tensor import TensorSpec
from builder.importers.samples.golden_inputs import make_random_values
from builder.measure.local import run_event
from builder.measure.local.emulator import LambdaEmulator
from builder.measure.machine import cpu_name
from builder.package.bundle import Bundle
from builder.verify.library.loaded_library import BoundCall, OpenedModel

WARM_UP = 3
"""Number of runs at the start that are not counted."""

MIN_RUNS, MAX_RUNS = 10, 100_000


@dataclass(frozen=True)
class Spread:
    """Milliseconds of ``runs`` runs."""

    runs: int
    min: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def from_times(cls, times: Sequence[float]) -> Spread:
        """Summarise ``times``, the milliseconds of each run."""
        p50, p90, p99 = (float(value) for value in np.percentile(times, (50, 90, 99)))
        return cls(len(times), min(times), p50, p90, p99)


@dataclass(frozen=True)
class Start:
    """One cold start, in milliseconds: ``imports``, then ``load`` of the model, then the ``first`` request.

    ``imports`` has Python's own start in it. ``decode`` and ``infer`` are parts of ``first``.
    """

    imports: float
    load: float
    first: float
    decode: float
    infer: float

    @property
    def total(self) -> float:
        """Milliseconds of the whole start."""
        return self.imports + self.load + self.first


@dataclass(frozen=True)
class FunctionTimes:
    """The times of the function in Lambda's emulator."""

    python: str
    note: str
    starts: int
    """The number of cold starts that were measured."""
    start: Start
    """The one with the median total."""
    warm: Spread
    """The times of warm requests, as their client sees them."""
    handler: float
    """Milliseconds that the function itself takes of a warm request, the median."""
    memory: int
    """Bytes of the function's process, at most."""


@dataclass(frozen=True)
class Benchmark:
    """The times of a bundle's library and of its function."""

    model: str
    version: str
    coldforge: str
    target: str
    cpu: str
    threads: int
    library: Spread
    """Milliseconds of a run."""
    function: FunctionTimes | None
    """None where it was not asked for."""


def benchmark_bundle(bundle: Bundle, *, threads: int = 1, seconds: float = 3.0, starts: int = 5) -> Benchmark:
    """Measure ``bundle`` for about ``seconds`` in the library and as long in the warm function.

    ``starts``: cold starts of the function; 0 measures the library alone. Raises VerifyError where this machine cannot
    run the library, EnvironmentSetupError where it cannot run the function.
    """
    manifest = json.loads(bundle.manifest.read_text(encoding="utf-8"))
    with open_call(bundle, manifest, threads) as call:
        library = Spread.from_times(time_calls(call, seconds))
    return Benchmark(
        model=manifest["model"]["name"],
        version=manifest["model"]["version"],
        coldforge=manifest["built_with"]["coldforge"],
        target=manifest["target"]["arch"],
        cpu=cpu_name(),
        threads=threads,
        library=library,
        function=measure_function(bundle, starts, seconds) if starts else None,
    )


@contextmanager
def open_call(bundle: Bundle, manifest: Mapping[str, Any], threads: int = 1) -> Iterator[BoundCall]:
    """Yield a run of the library of ``bundle`` on one random input. Raises VerifyError where it cannot run here."""
    with OpenedModel(bundle.library, threads, bundle.weights_elsewhere) as model:
        feeds = [make_random_values(TensorSpec.from_dict(feed), 0) for feed in manifest["feeds"]]
        yield model.bind_call(feeds, [fetch["bytes"] for fetch in manifest["fetches"]])


def time_calls(call: Callable[[], object], seconds: float) -> list[float]:
    """Return the milliseconds of each call of ``call`` in ``seconds``, after some that are not counted."""
    for _ in range(WARM_UP):
        call()
    times: list[float] = []
    end = time.monotonic() + seconds
    while len(times) < MIN_RUNS or (time.monotonic() < end and len(times) < MAX_RUNS):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1000)
    return times


def measure_function(bundle: Bundle, starts: int = 5, seconds: float = 3.0) -> FunctionTimes:
    """Start the function of ``bundle`` in Lambda's emulator ``starts`` times, and time warm requests for ``seconds``.

    Raises EnvironmentSetupError where the function does not run, AnswerError for a request that it refuses.
    """
    event = run_event.default_event(bundle.folder)
    cold_starts: list[Start] = []
    for number in range(starts):
        with run_event.prepare_emulator(bundle.layer) as running:
            cold_starts.append(_measure_start(running, event))
            if number == starts - 1:
                warm = Spread.from_times(time_calls(lambda: running.invoke(event), seconds))
                handler = median(value for name, value in _parse_metrics(running.log) if name == "TotalMs")
                memory, python = running.peak_rss, running.python
    start = sorted(cold_starts, key=lambda start: start.total)[len(cold_starts) // 2]
    note = run_event.describe_mismatch(python) or ""
    return FunctionTimes(python.version, note, starts, start, warm, handler, memory=memory)


def _measure_start(running: LambdaEmulator, event: Any) -> Start:
    """Return the first request's times, as the client, the emulator and the function itself measure them.

    Raises EnvironmentSetupError, and AnswerError for a request that the function refuses.
    """
    answer, first = run_event.call_first(running, event)
    run_event.require_answer(answer)
    metrics = dict(_parse_metrics(running.log))
    if math.isnan(running.init_ms):
        raise EnvironmentSetupError("the emulator did not say how long the function's start took; run it again.")
    load = metrics.get("LoadMs", 0.0)
    return Start(running.init_ms - load, load, first, metrics.get("DecodeMs", 0.0), metrics.get("InferMs", 0.0))


def _parse_metrics(log: str) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of each metric of time in the function's log, in CloudWatch's embedded format."""
    for line in log.splitlines():
        if line.startswith('{"_aws"'):
            yield from ((name, value[0]) for name, value in json.loads(line).items() if name.endswith("Ms"))


def format_benchmark(benchmark: Benchmark) -> str:
    """Return a table of the times, and one line to paste."""
    rows = [["library, warm", *_format_cells(benchmark.library)]]
    lines = []
    if function := benchmark.function:
        start = function.start
        rows.append(["function, warm", *_format_cells(function.warm)])
        lines = [
            "",
            f"cold start {start.total:.0f} ms: imports {start.imports:.0f}, load {start.load:.1f}, "
            f"first request {start.first:.1f} (the median of {function.starts} starts, Python {function.python})",
        ]
        lines += [function.note] if function.note else []
    table = format_table(("ms", "p50", "p90", "p99", "fastest", "runs"), rows, right=(1, 2, 3, 4, 5), indent=0)
    return "\n".join([table, *lines, "", format_one_line(benchmark)])


def format_one_line(benchmark: Benchmark) -> str:
    """Return the most important figures in one line to paste."""
    threads = "1 thread" if benchmark.threads == 1 else f"{benchmark.threads} threads"
    parts = [
        f"{benchmark.model} {benchmark.version}",
        f"coldforge {benchmark.coldforge}",
        f"{benchmark.cpu}, {threads}",
        f"library {_format_brief(benchmark.library)} ms (p50/p90/p99)",
    ]
    if function := benchmark.function:
        parts += [f"function cold {function.start.total:.0f} ms, warm {_format_brief(function.warm)} ms"]
    return " · ".join(parts)


def _format_cells(spread: Spread) -> list[str]:
    return [f"{value:.3f}" for value in (spread.p50, spread.p90, spread.p99, spread.min)] + [f"{spread.runs:,}"]


def _format_brief(spread: Spread) -> str:
    return "/".join(f"{value:.3g}" for value in (spread.p50, spread.p90, spread.p99))
