"""Time each step of a model: a build of its program with a clock between the steps, run on a golden input.

The library is loaded into this process, on which nothing else should run at the same time. Times are the fastest
and the median of many rounds, in which several libraries take turns, so that a slow moment of the machine meets all.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.cache import code_digest, digest, run_cached
from builder.emit import Sources, emit
from builder.errors import VerifyError
from builder.importers.graph import FrozenGraph
from builder.link.library import link_library
from builder.lower.program import Program, walk
from builder.spec import ModelSpec
from builder.xla.tfcompile import CompiledGraph

Array = NDArray[Any]

MIN_ROUNDS, MAX_ROUNDS = 5, 1000
LIMIT = "COLDFORGE_CPU"
"""The environment variable that keeps a library to an instruction set; see runtime/abi/model.c."""


@dataclass(frozen=True)
class Times:
    """Of every step of ``walk(program.steps)``: calls in one run, and seconds of all of them together."""

    calls: tuple[int, ...]
    fastest: tuple[float, ...]
    median: tuple[float, ...]
    run: float
    """The median run, from cf_run to its return."""
    rounds: int


def build(program: Program, spec: ModelSpec, compiled: CompiledGraph, folder: Path, cache: Path, key: str) -> Path:
    """A library of ``program`` with the clock in it, in ``folder``; kept for the same ``key``. Raises LinkError."""

    def make(fresh: Path) -> None:
        sources = emit(program, spec, compiled.target, fresh, probe="profile")
        link_library(sources, [compiled.kernels_path], compiled.target, fresh, cache / "zig", profile=True)

    run_cached(folder, digest(code_digest(), key), make)
    return folder / "libmodel.so"


class _Slot(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Profiled:
    """A library made by ``build``, opened; ``isa`` None: for what this machine has, or is limited to.

    Raises VerifyError where this machine can't run it.
    """

    def __init__(
        self, library: Path, program: Program, graph: FrozenGraph, threads: int = 1, isa: str | None = None
    ) -> None:
        try:
            self.abi = ctypes.CDLL(str(library))
        except OSError as error:
            raise VerifyError(f"this machine cannot load a library for the model's target: {error}") from error
        self.abi.cf_last_error.restype = ctypes.c_char_p
        self.abi.cf_profile.restype = ctypes.c_void_p
        self.model = ctypes.c_void_p()
        with _limited_to(isa):
            self._require(self.abi.cf_open(ctypes.c_uint32(threads), ctypes.byref(self.model)), None)
        self.times = _as_array(self.abi.cf_profile(), len(walk(program.steps)))
        with np.load(graph.golden_path, allow_pickle=False) as golden:
            case = next(name.split("/")[1] for name in golden.files if name.startswith("feed/"))
            self.feeds = [np.ascontiguousarray(golden[f"feed/{case}/{port.spec.name}"]) for port in graph.feeds]
        self.fetches = [np.empty(port.spec.size, np.uint8) for port in graph.fetches]

    def run(self) -> tuple[Array, Array, float]:
        """One inference: (calls, seconds) of each step, and the seconds of all."""
        self.times[:] = 0
        slots = [(_Slot * len(a))(*[_Slot(x.ctypes.data, x.nbytes) for x in a]) for a in (self.feeds, self.fetches)]
        counts = [ctypes.c_size_t(len(a)) for a in slots]
        begin = time.perf_counter()
        status = self.abi.cf_run(self.model, slots[0], counts[0], slots[1], counts[1])
        took = time.perf_counter() - begin
        self._require(status, self.model)
        return self.times[:, 1].astype(np.int64), self.times[:, 0] * 1e-9, took

    def close(self) -> None:
        self.abi.cf_close(self.model)

    def _require(self, status: int, model: ctypes.c_void_p | None) -> None:
        if status:
            reason = (self.abi.cf_last_error(model) or b"").decode("utf-8", "replace")
            raise VerifyError(f"the library cannot be timed on this machine: {reason or f'status {status}'}.")


@contextlib.contextmanager
def _limited_to(isa: str | None) -> Iterator[None]:
    before = os.environ.get(LIMIT)
    if isa is not None:
        os.environ[LIMIT] = isa
    yield
    if before is not None:
        os.environ[LIMIT] = before
    elif isa is not None:
        del os.environ[LIMIT]


def host_isas(library: Path) -> tuple[str, ...]:
    """The instruction sets of the fused kernels that this machine has, or is limited to, the least first."""
    level = int(ctypes.CDLL(str(library)).cf_profile_level())
    isas = tuple(json.loads(Sources(library.parent).description.read_text())["target"]["isa"][: level + 1])
    limit = os.environ.get(LIMIT)
    return isas[: isas.index(limit) + 1] if limit in isas else isas


def measure(libraries: Mapping[str, Profiled], seconds: float, rounds: int = MIN_ROUNDS) -> dict[str, Times]:
    """Run all ``libraries`` in turns, for ``seconds`` together and at least ``rounds`` times.

    A first run of each is not counted.
    """
    runs: dict[str, list[tuple[Array, Array, float]]] = {name: [] for name in libraries}
    for library in libraries.values():
        library.run()
    names, end = list(libraries), time.monotonic() + seconds
    for number in range(MAX_ROUNDS):
        if number >= rounds and time.monotonic() > end:
            break
        first = number % len(names)  # who comes first has another's data in the caches
        for name in (*names[first:], *names[:first]):
            runs[name].append(libraries[name].run())
    return {name: _summary(found) for name, found in runs.items()}


def _summary(runs: Sequence[tuple[Array, Array, float]]) -> Times:
    times = np.array([taken for _, taken, _ in runs])
    return Times(
        calls=tuple(int(n) for n in runs[-1][0]),
        fastest=tuple(float(t) for t in times.min(axis=0)),
        median=tuple(float(t) for t in np.median(times, axis=0)),
        run=float(np.median([whole for _, _, whole in runs])),
        rounds=len(runs),
    )


def _as_array(address: int, steps: int) -> Array:
    """cf_step_time[steps] as [steps, 2]: nanoseconds, calls."""
    return np.ctypeslib.as_array((ctypes.c_uint64 * (2 * steps)).from_address(address)).reshape(steps, 2)
