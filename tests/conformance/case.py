"""One model of a list, and how it is made."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """``make()`` gives a Keras model. ``group``: the list that it is of."""

    group: str
    name: str
    make: Callable[[], Any] = field(repr=False)

    @property
    def slug(self) -> str:
        """A name for its folder, and for the model."""
        return "".join(c if c.isalnum() else "_" for c in f"{self.group}_{self.name}".lower())

    @property
    def seed(self) -> int:
        return zlib.crc32(self.slug.encode())
