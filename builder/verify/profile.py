"""Times of each step of a model: a build of its program with a clock between the steps, run on a golden input.

The library is loaded into this process, on which nothing else should run at the same time. Times are the fastest
and the median of many rounds, in which several libraries take turns, so that a slow moment of the machine affects all.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from builder.base.arrays import Array
from builder.base.cache import code_digest, compute_digest, run_cached
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import build_library
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import walk_steps
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.verify.golden import GoldenFile
from builder.verify.library.loaded_library import OpenedModel

MIN_ROUNDS, MAX_ROUNDS = 5, 1000
LIMIT = "COLDFORGE_CPU"
"""The environment variable that limits a library to an instruction set; see runtime/abi/model.c."""


@dataclass(frozen=True)
class StepTimes:
    """Calls of every step of ``walk_steps(program.steps)`` in one run, and the seconds of these calls together."""

    calls: tuple[int, ...]
    fastest: tuple[float, ...]
    median: tuple[float, ...]
    run: float
    """Median time of a run, from cf_run to its return."""
    rounds: int


def build_timed_library(
    program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, cache: Path, key: str
) -> Path:
    """Build a library of ``program`` with a clock in ``folder``; keep it for the same ``key``. Raises LinkError."""

    make = functools.partial(build_library, program, spec, compiled, zig=cache / "zig", probe="profile")
    run_cached(folder, compute_digest(code_digest(), key), make)
    return folder / "libmodel.so"


class ProfiledLibrary:
    """An opened library of ``build_timed_library``; with ``isa`` None, it uses all that this machine has or allows.

    ``fetches``: the answers of the last run, as bytes. Raises VerifyError if this machine can't run it.
    """

    def __init__(
        self, library: Path, program: Program, graph: FrozenGraph, threads: int = 1, isa: str | None = None
    ) -> None:
        with _limit_isa(isa):
            self._model = OpenedModel(library, threads)
        self._model.so.cf_step_times.restype = ctypes.c_void_p
        self._times = _as_array(self._model.so.cf_step_times(), len(walk_steps(program.steps)))
        with GoldenFile.open(graph.golden_path) as golden:
            feeds = [golden.read_feed(golden.cases[0], port.spec.name) for port in graph.feeds]
        self._call = self._model.bind_call(feeds, [port.spec.size for port in graph.fetches])
        self.fetches = self._call.fetches

    def run(self) -> tuple[Array, Array, float]:
        """Run one inference: return (calls, seconds) of each step, and the seconds of all. Raises VerifyError."""
        self._times[:] = 0
        begin = time.perf_counter()
        self._call()
        took = time.perf_counter() - begin
        return self._times[:, 1].astype(np.int64), self._times[:, 0] * 1e-9, took

    def close(self) -> None:
        """Close the model."""
        self._model.close()


@contextlib.contextmanager
def _limit_isa(isa: str | None) -> Iterator[None]:
    before = os.environ.get(LIMIT)
    if isa is not None:
        os.environ[LIMIT] = isa
    try:
        yield
    finally:
        if before is not None:
            os.environ[LIMIT] = before
        elif isa is not None:
            del os.environ[LIMIT]


def host_isas(library: Path) -> tuple[str, ...]:
    """Return the instruction sets of the fused kernels that this machine has or is limited to, the least first."""
    level = int(ctypes.CDLL(str(library)).cf_step_level())
    isas = GeneratedSources.load(library.parent).isa[: level + 1]
    limit = os.environ.get(LIMIT)
    return isas[: isas.index(limit) + 1] if limit in isas else isas


def measure_steps(
    libraries: Mapping[str, ProfiledLibrary], seconds: float, rounds: int = MIN_ROUNDS
) -> dict[str, StepTimes]:
    """Run all ``libraries`` in turns, for ``seconds`` and at least ``rounds`` times, after one uncounted run."""
    runs: dict[str, list[tuple[Array, Array, float]]] = {name: [] for name in libraries}
    for library in libraries.values():
        library.run()
    names, end = list(libraries), time.monotonic() + seconds
    for number in range(MAX_ROUNDS):
        if number >= rounds and time.monotonic() > end:
            break
        first = number % len(names)  # the first to run finds another's data in the caches
        for name in (*names[first:], *names[:first]):
            runs[name].append(libraries[name].run())
    return {name: _summarise_runs(measured) for name, measured in runs.items()}


def _summarise_runs(runs: Sequence[tuple[Array, Array, float]]) -> StepTimes:
    times = np.array([seconds for _, seconds, _ in runs])
    return StepTimes(
        calls=tuple(int(n) for n in runs[-1][0]),
        fastest=tuple(float(t) for t in times.min(axis=0)),
        median=tuple(float(t) for t in np.median(times, axis=0)),
        run=float(np.median([whole for _, _, whole in runs])),
        rounds=len(runs),
    )


def _as_array(address: int, steps: int) -> Array:
    """Return cf_step_time[steps] as [steps, 2]: nanoseconds, calls."""
    return np.ctypeslib.as_array((ctypes.c_uint64 * (2 * steps)).from_address(address)).reshape(steps, 2)
