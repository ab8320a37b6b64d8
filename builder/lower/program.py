"""Program: a compiled graph as a typed list of steps over one arena and one block of weights.

Both paths of ``lower`` make one, and ``emit`` prints it as C. Offsets and sizes are bytes, strides are elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from builder.lower.fused_steps import (
    AttentionStep,
    BroadcastStep,
    GatherStep,
    LayerStep,
    NormStep,
    PoolStep,
    RecurrentStep,
    RepackStep,
    RowStep,
)
from builder.lower.packing import MAX_THREADS
from builder.lower.steps import (
    Buffer,
    CombinedNmsStep,
    ConvolutionStep,
    CopyStep,
    DotStep,
    FftStep,
    KernelStep,
    NmsStep,
    RngStep,
    SortStep,
    TopKStep,
)
from builder.spec.tensor import TensorSpec


@dataclass(frozen=True)
class CallStep:
    name: str
    body: Steps


@dataclass(frozen=True)
class ConditionalStep:
    """Run one branch. ``index`` is a bool (true is branch 0) or an int32 (out of range is the last)."""

    name: str
    index: Buffer
    branches: tuple[Steps, ...]


@dataclass(frozen=True)
class WhileStep:
    """Run ``body`` ``trip_count`` times, or while ``condition`` leaves a true byte in ``predicate``."""

    name: str
    condition: Steps
    predicate: Buffer
    body: Steps
    trip_count: int | None


@dataclass(frozen=True)
class CascadeStep:
    """Run ``layers``, each of which reads what the one before it leaves, a stripe of rows at a time.

    A stripe has ``rows`` rows of the last layer's output. The buffer between two layers has the rows that a stripe
    needs, for each thread one after another; its View is that of the whole picture. So has the scratch of a layer.
    """

    name: str
    layers: tuple[LayerStep, ...]
    rows: int

    @property
    def rolling(self) -> tuple[int, ...]:
        """Bytes of a thread's buffer behind each layer but the last."""
        return tuple(layer.stored.buffer.size // MAX_THREADS for layer in self.layers[:-1])

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of a thread's scratch of each layer."""
        return tuple(layer.scratch.size // MAX_THREADS if layer.scratch else 0 for layer in self.layers)


Step = (
    KernelStep
    | ConvolutionStep
    | DotStep
    | CopyStep
    | SortStep
    | TopKStep
    | FftStep
    | NmsStep
    | CombinedNmsStep
    | RngStep
    | LayerStep
    | PoolStep
    | NormStep
    | RecurrentStep
    | AttentionStep
    | RepackStep
    | RowStep
    | GatherStep
    | BroadcastStep
    | CascadeStep
    | CallStep
    | ConditionalStep
    | WhileStep
)
Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Weight:
    """A constant's bytes and where they stand in the weights."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class BoundPort:
    """A feed or fetch and where ``cf_run`` copies it to or from; a feed in the space "feed" is not copied."""

    spec: TensorSpec
    buffer: Buffer


@dataclass(frozen=True)
class BoundState:
    """A variable that lasts from call to call, at ``offset`` in the state: copied to ``read`` before the steps run
    and from ``write`` after them. ``first``: its value when the model is opened."""

    spec: TensorSpec
    offset: int
    read: Buffer
    write: Buffer
    first: Buffer


@dataclass(frozen=True)
class Program:
    """``arena_touched``: how much of the arena's beginning every run touches, in bytes; 0 where that is not known.

    ``parts``: the steps are for one input of a batch, and run so often; 0: they are for all of it. The specs of feeds
    and fetches are the batch's, their buffers those of one part. ``dense_end``: the numbers of the first of the layers
    that such a batch runs for all inputs together, and of the step behind them; None where there are none.
    """

    steps: Steps
    feeds: tuple[BoundPort, ...]
    fetches: tuple[BoundPort, ...]
    weights: tuple[Weight, ...]
    arena_size: int
    weights_size: int
    states: tuple[BoundState, ...] = ()
    arena_touched: int = 0
    parts: int = 0
    dense_end: tuple[int, int] | None = None

    @property
    def state_size(self) -> int:
        """Bytes of the state, without gaps: variable after variable."""
        return sum(state.spec.size for state in self.states)


def walk(steps: Steps) -> list[Step]:
    """Every step, those inside cascades, calls, branches and loops included, in program order."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if isinstance(step, CascadeStep):
            found += step.layers
        elif isinstance(step, CallStep):
            found += walk(step.body)
        elif isinstance(step, ConditionalStep):
            for branch in step.branches:
                found += walk(branch)
        elif isinstance(step, WhileStep):
            found += walk(step.condition) + walk(step.body)
    return found
