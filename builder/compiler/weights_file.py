"""What is known of weights that are no part of the library: their file's name, and what ties them to it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

FILE = "model.weights"
"""The file's name in the library's folder."""


@dataclass(frozen=True)
class Layout:
    """What a library wants its weights to be: ``digest`` (SHA-256, hex) of what reads them, and bytes.

    ``program``, ``kernels``: the digests of the steps and of XLA's kernels, of which ``digest`` is made.
    """

    size: int
    program: str
    kernels: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.size} {self.program} {self.kernels}".encode()).hexdigest()

    def to_dict(self) -> dict[str, str | int]:
        """The entry of manifest.json; ``Layout.from_dict`` reads it back."""
        return {"bytes": self.size, "layout": self.digest, "program": self.program, "kernels": self.kernels}

    @classmethod
    def from_dict(cls, entry: dict[str, str | int]) -> Layout:
        return cls(int(entry["bytes"]), str(entry["program"]), str(entry["kernels"]))
