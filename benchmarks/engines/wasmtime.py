"""model.wasm in wasmtime, called through its Python package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builder.wasm.engine import Module, Slot


class Wasmtime:
    def __init__(self, model: Path, threads: int) -> None:
        self.module = Module(model)
        described = json.loads(self.module.describe())
        self.model = self.module.open()
        self.inputs = self._slots(described["feeds"])
        self.outputs = self._slots(described["fetches"])
        self.arrays = self.module.slots(self.inputs), self.module.slots(self.outputs)

    def _slots(self, ports: list[dict[str, Any]]) -> list[Slot]:
        return [Slot(self.module.allocate(port["bytes"]), port["bytes"]) for port in ports]

    def feed(self, data: bytes) -> bytes:
        return data

    def run(self, feed: bytes) -> list[bytes]:
        """Copies in and out are part of it, as in Node."""
        self.module.write(self.inputs[0].address, feed)
        if self.module.call("cf_run", self.model, self.arrays[0], 1, self.arrays[1], len(self.outputs)):
            raise RuntimeError("cf_run failed")
        return [self.module.read(slot.address, slot.size) for slot in self.outputs]

    def raw(self, answers: list[bytes]) -> list[bytes]:
        return answers
