"""Reader of XLA's thunks as steps: a module of a step registers a function for its kind of thunk."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from builder.base.errors import LowerError
from builder.compiler.lower import steps
from builder.compiler.lower.buffers import BufferPlan
from builder.compiler.lower.steps.base import Buffer, Step, Steps
from builder.compiler.lower.weight_store import WeightStore

ReadThunk = Callable[[str, Any, "ThunkReader"], Step]
"""A function that reads a step from a thunk's name and proto, or raises LowerError if the runtime cannot run it."""

_READERS: dict[str, ReadThunk] = {}


def reads_thunk(kind: str) -> Callable[[ReadThunk], ReadThunk]:
    """Register the decorated function for a ``kind`` of thunk: a field of the oneof in XLA's thunk.proto."""

    def register(read: ReadThunk) -> ReadThunk:
        assert kind not in _READERS, f"two steps read {kind}"
        _READERS[kind] = read
        return read

    return register


@functools.cache
def load_thunk_readers() -> Mapping[str, ReadThunk]:
    """Import every module of a step, and return the functions that they registered."""
    for module in pkgutil.iter_modules(steps.__path__):
        if module.name.endswith("_step"):
            importlib.import_module(f"{steps.__name__}.{module.name}")
    return _READERS


@dataclass
class ThunkReader:
    """A reader of thunks as steps, which collects those it refuses, so that a person learns of all of them at once."""

    plan: BufferPlan
    scratch_size: int = 0
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.constants = WeightStore(size=self.plan.weights_size)
        """Constants of the steps' own, which lie behind XLA's."""

    def read_sequence(self, sequence: Any) -> Steps:
        """Return the steps of a ThunkSequenceProto, without those that are refused."""
        read_steps: list[Step] = []
        for thunk in sequence.thunks:
            kind = str(thunk.WhichOneof("impl"))
            try:
                read = load_thunk_readers().get(kind)
                if read is None:
                    raise LowerError(f"there is no step for the thunk kind {thunk.kind or kind!r}.")
                read_steps.append(read(thunk.info.op_name, getattr(thunk, kind), self))
            except LowerError as error:
                self.refused.append(f"{thunk.info.op_name}: {error}")
        return tuple(read_steps)

    def resolve_slice(self, proto: Any, name: str) -> Buffer:
        """Return the buffer of a BufferAllocationSliceProto."""
        return self.plan.resolve_slice(proto, name)

    def resolve_shaped_slice(self, proto: Any, name: str) -> Buffer:
        """Return the buffer of a ShapeBufferAllocationSliceProto."""
        return self.plan.resolve_slice(proto.slice, name)

    def reserve_scratch(self, size: int) -> Buffer:
        """Return memory that a step needs only while it runs: the same for all steps, behind the plan's."""
        self.scratch_size = max(self.scratch_size, size)
        return Buffer("arena", self.plan.arena_size, size)
