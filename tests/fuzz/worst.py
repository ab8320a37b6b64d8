"""The inputs that took most: kept beside what was found, and their figures for the report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.oracle import Spent


class Worst:
    """``folder`` has worst.json, and the inputs worst-seconds and worst-bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._most = Spent(0, 0)
        folder.mkdir(parents=True, exist_ok=True)
        self._write()

    def note(self, spent: Spent, data: bytes) -> None:
        """Written whenever there is more: libFuzzer ends the process without a last word."""
        most = Spent(max(spent.seconds, self._most.seconds), max(spent.bytes, self._most.bytes))
        for key in ("seconds", "bytes"):
            if getattr(most, key) > getattr(self._most, key):
                (self._folder / f"worst-{key}").write_bytes(data)
        if most != self._most:
            self._most = most
            self._write()

    def _write(self) -> None:
        (self._folder / "worst.json").write_text(json.dumps(asdict(self._most)))


def read(folder: Path) -> Spent:
    """What ``Worst`` wrote there last."""
    return Spent(**json.loads((folder / "worst.json").read_text()))
