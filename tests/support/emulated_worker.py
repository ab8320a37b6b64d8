"""``benchmarks.worker`` for libraries of arm64, which run under QEMU instead of in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import worker
from benchmarks.engines import coldforge
from builder.library.buffers import Buffer, Slot
from builder.library.remote import RemoteLibrary
from builder.targets import ARM64
from builder.verify.machine import machine_for
from tests.support.build import CACHE


class Emulated:
    """An engine, as ``benchmarks.engines`` says; the number of threads is the library's own choice."""

    def __init__(self, model: Path, threads: int) -> None:
        self.library = RemoteLibrary(machine_for(ARM64, CACHE).runner, str(model))
        described = json.loads(self.library.describe())
        self.sizes = [feed["bytes"] for feed in described["feeds"]]
        self.fetches = [_slot(bytes(fetch["bytes"])) for fetch in described["fetches"]]
        status, self.model, why = self.library.open()
        assert status == 0, why

    def feed(self, data: bytes) -> Any:
        assert self.sizes == [len(data)]
        return [_slot(data)]

    def run(self, feed: Any) -> Any:
        status, why = self.library.run(self.model, feed, self.fetches, (len(feed), len(self.fetches)))
        assert status == 0, why
        return self.fetches

    def raw(self, answers: Any) -> list[bytes]:
        return [slot.buffer.data.tobytes() for slot in answers]


def _slot(data: bytes) -> Slot:
    buffer = Buffer.of(np.frombuffer(data, np.uint8), 0)
    return Slot(buffer, buffer.size)


if __name__ == "__main__":
    coldforge.Coldforge = Emulated  # type: ignore[assignment, misc]
    worker.main()
