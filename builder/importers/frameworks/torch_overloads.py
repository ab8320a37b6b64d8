"""Imports torchax if PyTorch lacks some of the overloads of operators that torchax names.

torchax makes its table of operators when it is imported, and its last release (0.0.13) names overloads that PyTorch has
dropped since, all of named tensors. A program that was exported by this PyTorch cannot have one of those.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Absent:
    """A placeholder for an operator that this PyTorch does not have: it can be named, but not called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, part: str) -> Absent:
        if part.startswith("__"):
            raise AttributeError(part)
        return Absent(f"{self.name}.{part}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"PyTorch has no {self.name}.")


def import_torchax() -> Any:
    """Import and return the module ``torchax.export``."""
    from torch import _ops

    with absent_for(_ops.OpOverloadPacket), absent_for(_ops._OpNamespace):
        return importlib.import_module("torchax.export")


@contextmanager
def absent_for(kind: Any) -> Iterator[None]:
    """Return an ``Absent`` in place of an AttributeError for missing names of a ``kind``, inside this context."""
    own: Callable[[Any, str], Any] = kind.__getattr__

    def lenient(self: Any, name: str) -> Any:
        try:
            return own(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return Absent(f"{self}.{name}")

    kind.__getattr__ = lenient
    try:
        yield
    finally:
        kind.__getattr__ = own
