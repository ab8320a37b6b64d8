"""A model of another framework, in a process of its own framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from builder.base.arrays import Array
from builder.importers.loaded import Shape
from builder.importers.ports import ModelPorts


@dataclass(frozen=True)
class FrameworkModel:
    """A model; ``function`` returns, for the shapes of the feeds, a JAX function of the feeds that returns the fetches.

    Both are in the order of ``ports``. ``answer`` does the same with arrays, run by the framework itself.
    """

    ports: ModelPorts
    function: Callable[[Mapping[str, Shape]], Callable[..., Sequence[Any]]]
    answer: Callable[[Sequence[Array]], Sequence[Array]]
