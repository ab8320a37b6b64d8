"""The name of the file of weights outside the library, and the digests that tie it to the library."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

FILE = "model.weights"
"""The file's name in the library's folder."""


@dataclass(frozen=True)
class Layout:
    """The weights that a library expects: their size in bytes, and the ``digest`` of the code that reads them.

    ``program`` and ``kernels`` are the digests of the steps and of XLA's kernels; ``digest`` (SHA-256, hex) joins them.
    """

    size: int
    program: str
    kernels: str

    @property
    def digest(self) -> str:
        """SHA-256 of the size and both digests, in hex."""
        return hashlib.sha256(f"{self.size} {self.program} {self.kernels}".encode()).hexdigest()

    def to_dict(self) -> dict[str, str | int]:
        """Return the entry of manifest.json, which ``Layout.from_dict`` reads back."""
        return {"bytes": self.size, "layout": self.digest, "program": self.program, "kernels": self.kernels}

    @classmethod
    def from_dict(cls, entry: dict[str, str | int]) -> Layout:
        """Read the layout from an entry of manifest.json."""
        return cls(int(entry["bytes"]), str(entry["program"]), str(entry["kernels"]))
