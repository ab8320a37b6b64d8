"""The fused kernels on an emulated processor: calls are collected first and made together, in one run of Bochs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings

from builder.base.project import RUNTIME
from tests.support.bochs.machine import DATA, Machine, link_program
from tests.support.fused import CACHE, TABLES, Kernels, Prepared, build

LAYER, POOL, REPACK = range(3)
JOBS = Path(__file__).with_name("jobs.c")


def build_jobs(folder: Path) -> Path:
    """The kernels as the other tests have them, compiled as the builder does, in a program for the machine."""
    build(folder)
    link_program([JOBS, *sorted(folder.glob("*.o"))], folder / "jobs", [RUNTIME], CACHE)
    return folder / "jobs"


Answer = list[bytes]
"""What a call wrote, buffer by buffer."""


class Collected(BaseException):
    """A call was noted; its answer comes later."""


@dataclass(frozen=True)
class _Call:
    table: int
    kind: int
    structures: tuple[bytes, ...]
    buffers: dict[int, bytes]
    """By their address in this process."""
    pointers: dict[int, int]
    """In the second structure: offset to address in this process."""
    arguments: tuple[int, ...]
    written: tuple[tuple[int, int], ...]
    """Address in this process and size."""


class Emulated(Kernels):
    """Kernels that `answer` makes the calls of."""

    def __init__(self, machine: Machine, program: Path) -> None:
        self.machine, self.program = machine, program
        self.library: Any = self  # of whose functions some of these are the names
        self.level, self.wide = -1, False
        """Of the last run: cf_cpu_level(), and whether AVX-512's registers were used."""
        self._known: list[Answer] = []
        """Of the check that is under way, the answers not yet given to it."""
        self._open: _Call | None = None

    def context(self, table: str, threads: int) -> Any:
        """One thread does all."""
        return TABLES[table]

    def answer(self, checks: Sequence[Callable[[], None]], folder: Path, timeout: float = 300) -> None:
        """Make every check, whose calls of kernels are answered by the emulated processor.

        A check is made again from its start for each of its calls, so it must make the same ones every time.
        """
        answers: list[list[Answer]] = [[] for _ in checks]
        waiting = list(range(len(checks)))
        while True:
            calls = {}
            for number in waiting:
                self._known, self._open = answers[number][:], None
                try:
                    checks[number]()
                except Collected:
                    assert self._open is not None
                    calls[number] = self._open
            if not calls:
                break
            image, places = _layout(list(calls.values()))
            outcome = self.machine.run(self.program, folder, data=image, timeout=timeout)
            self.level, self.wide, after = int(outcome.said), outcome.wide, outcome.data
            for number, written in zip(calls, places, strict=True):
                answers[number].append([after[at - DATA : at - DATA + size] for at, size in written])
            waiting = list(calls)

    def _call(self, call: _Call) -> None:
        if not self._known:
            self._open = call
            raise Collected
        for (address, size), answer in zip(call.written, self._known.pop(0), strict=True):
            assert size == len(answer)
            ctypes.memmove(address, answer, size)

    def run(self, p: Prepared, table: str = "v3", threads: int = 1) -> None:
        arrays = {array.ctypes.data: array.tobytes() for array in p.arrays.values()}
        pointers = {}
        for name, _ in p.data._fields_:
            if address := getattr(p.data, name):
                pointers[getattr(type(p.data), name).offset] = address
        written = [p.output.buffer, *([p.second.buffer] if p.second else []), p.arrays["scratch"]]
        regions = tuple((array.ctypes.data, array.nbytes) for array in written[:-1])
        scratch = (p.scratch.ctypes.data, p.scratch.nbytes)
        self._call(
            _Call(TABLES[table], LAYER, (bytes(p.layer), bytes(p.data)), arrays, pointers, (), (*regions, scratch))
        )

    def cf_test_pool(self, table: int, pooling: Any, source: int, target: int) -> None:
        self._move(table, POOL, pooling._obj, source, target)

    def cf_test_repack(self, table: int, repack: Any, source: int, target: int) -> None:
        self._move(table, REPACK, repack._obj, source, target)

    def _move(self, table: int, kind: int, what: Any, source: int, target: int) -> None:
        # A Picture's buffer: its images, and 64 floats of guard on either side.
        sizes = [4 * (what.batch * view.image + 128) for view in (what.input, what.output)]
        buffers = {
            address: ctypes.string_at(address, size) for address, size in zip((source, target), sizes, strict=True)
        }
        self._call(_Call(table, kind, (bytes(what),), buffers, {}, (source, target), ((target, sizes[1]),)))


def _layout(calls: Sequence[_Call]) -> tuple[bytes, list[list[tuple[int, int]]]]:
    """The emulated memory from ``DATA`` on, as jobs.c reads it; address there and size of what each call writes."""
    image = bytearray(64 * -(-(8 + 40 * len(calls)) // 64))
    written = []
    struct.pack_into("<Q", image, 0, len(calls))

    def add(data: bytes) -> int:
        at = DATA + len(image)
        image.extend(data + bytes(-len(data) % 64))
        return at

    for number, call in enumerate(calls):
        places = {address: (add(data), len(data)) for address, data in call.buffers.items()}

        def placed(address: int, places: dict[int, tuple[int, int]] = places) -> int:
            """Where the byte that is at an address here is there."""
            start = max(a for a in places if a <= address)
            assert address < start + places[start][1], "a pointer into no buffer of the call"
            return places[start][0] + address - start

        what = add(call.structures[0])
        if call.kind == LAYER:
            data = bytearray(call.structures[1])
            for offset, address in call.pointers.items():
                struct.pack_into("<Q", data, offset, placed(address))
            arguments = (add(bytes(data)), 0)
        else:
            arguments = (placed(call.arguments[0]), placed(call.arguments[1]))
        struct.pack_into("<5Q", image, 8 + 40 * number, call.table, call.kind, what, *arguments)
        written.append([(placed(address), size) for address, size in call.written])
    return bytes(image), written


def drawn(strategy: Any, count: int) -> list[Any]:
    """Examples of a strategy, the same ones every time."""
    found: list[Any] = []

    @settings(
        max_examples=count, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found
