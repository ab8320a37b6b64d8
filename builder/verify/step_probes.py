"""Builds of a program that show its steps: with a clock between them, or with the memory before each.

The library is loaded into this process. Nothing else should run while steps are timed: times are the fastest and the
median of many rounds, in which several libraries take turns, so that a slow moment of the machine affects all. An
observer gets NumPy's view of the arena, so that no statistic is in C.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.base.arrays import Array
from builder.base.cache import code_digest, compute_digest, run_cached
from builder.compiler.emit import GeneratedSources
from builder.compiler.link.shared_library import build_library
from builder.compiler.lower.program import Program
from builder.compiler.lower.steps.base import View, walk_steps
from builder.compiler.lower.steps.layer_step import LayerStep
from builder.compiler.xla.tfcompile import CompiledGraph
from builder.config import ModelSpec
from builder.importers.graph import FrozenGraph
from builder.verify.golden import GoldenFile
from builder.verify.library.loaded_library import OpenedModel
from builder.verify.quantise.answer_accuracy import run_once

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
        steps = len(walk_steps(program.steps))
        times = (ctypes.c_uint64 * (2 * steps)).from_address(self._model.so.cf_step_times())
        self._times = np.ctypeslib.as_array(times).reshape(steps, 2)  # nanoseconds, calls
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
        run=float(np.median([took for _, _, took in runs])),
        rounds=len(runs),
    )


Look = Callable[[int, NDArray[np.uint8]], None]
"""A function of the number of the step that begins (``walk_steps``; their count after the last) and the arena."""

_Observer = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)


def build_observable(program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, cache: Path) -> Path:
    """Build a library of ``program`` in ``folder`` that can be observed. Raises LinkError.

    No two may have the same path in one process: the second would be the first.
    """
    return build_library(program, spec, compiled, folder, cache / "zig", probe="observe")


def observe_steps(
    library: Path, program: Program, graph: FrozenGraph, runs: Iterable[Mapping[str, NDArray[Any]]], look: Look
) -> None:
    """Run ``library`` on each of ``runs``, in order and on one opened model, and call ``look`` at every step.

    Raises VerifyError if this machine can't run it, and errors of ``look``.
    """
    failures: list[BaseException] = []

    def called(step: int, address: int) -> None:
        if failures:
            return
        try:
            arena = (ctypes.c_uint8 * program.arena_size).from_address(address)
            look(step, np.ctypeslib.as_array(arena))
        except BaseException as error:  # ctypes would print it and go on
            failures.append(error)

    observer = _Observer(called)  # must live as long as it may be called
    with OpenedModel(library) as model:
        model.so.cf_observe.restype = None
        model.so.cf_observe(observer)
        try:
            for feeds in runs:
                run_once(model, graph, feeds)
                if failures:
                    raise failures[0]
        finally:
            model.so.cf_observe(None)  # the library stays loaded after ``observer`` is gone


def view_image(view: View, shape: tuple[int, int, int, int], arena: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the float32 [batch, height, width, channels] that ``view`` has in ``arena``, without a copy."""
    whole = arena[view.buffer.offset :]
    floats = whole[: whole.size // 4 * 4].view(np.float32)[view.first :]
    strides = tuple(4 * n for n in (view.image, view.row, view.pixel, 1))
    return np.lib.stride_tricks.as_strided(floats, shape, strides, writeable=False)


def view_input(step: LayerStep, arena: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the input of ``step``, without its padding: [batch, height, width, channels]."""
    return view_image(step.input, (step.geometry.batch, *step.in_size, step.geometry.in_channels), arena)
