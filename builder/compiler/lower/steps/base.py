"""The base of all steps: where their bytes lie, what their fields declare, and what is asked of every kind.

Offsets and sizes are bytes, strides are elements.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_type_hints

ALIGNMENT = 64
"""XLA's kernels assume every buffer is aligned to this many bytes (``min_alignment`` in the thunk)."""

Space = Literal["arena", "weights", "feed"]


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes at ``offset`` in the writable arena or in the read-only weights.

    In the space "feed" they are those of feed number ``offset``, where the caller has them, and of any alignment.
    """

    space: Space
    offset: int
    size: int

    def overlaps_buffer(self, other: Buffer) -> bool:
        """Whether any byte belongs to both."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass(frozen=True)
class View:
    """A float32 NHWC tensor inside a buffer that may have a halo or padded pixels; strides in floats.

    ``first`` is the offset of element [0, 0, 0, 0] from the buffer's start.
    """

    buffer: Buffer
    first: int
    image: int
    row: int
    pixel: int


Use = Literal["reads", "writes", "updates", "scratch"]

T = TypeVar("T")

Reads = Annotated[T, "reads"]
"""The type of a field with buffers that the step reads, its weights among them. ``T`` is a Buffer, or anything that
holds some: a View, a tuple, a dataclass whose own fields do not say how they are used."""
Writes = Annotated[T, "writes"]
"""The type of a field with buffers that the step writes, whole."""
Updates = Annotated[T, "updates"]
"""The type of a field with buffers that the step reads and then writes."""
Scratch = Annotated[T, "scratch"]
"""The type of a field with memory that the step needs only while it runs."""

KernelTable = Literal["fused", "attention", "integer"]
"""A table of our own kernels, compiled for each instruction set: ``cf_<name>_tables``."""

KernelKind = Literal["INTEGER", "SMALL_WEIGHTS", "CONVOLUTIONS", "HARD_SWISH", "NORM", "RECURRENT", "ONE_BY_ONE"]
"""A part of the fused kernels that not every program needs: ``CF_HAS_<name>`` in runtime/fused/fused.h."""


class StepPrinter(Protocol):
    """The part of a printer that the steps with other steps inside them need."""

    probed: dict[int, int]
    """Step numbers by id(), of steps that tell when they begin."""

    def print_function(self, steps: Steps) -> str:
        """Print the C function that runs ``steps``, and return its name."""


@dataclass(frozen=True)
class Step(ABC):
    """One thing that a program does. ``name``: that of XLA's instruction.

    A subclass is a frozen dataclass. Each of its fields that holds buffers has one of the types above (``Reads``,
    ``Writes``, ``Updates``, ``Scratch``): that is the one place where it is said how the step uses them.
    """

    name: str

    kernel_table: ClassVar[KernelTable | None] = None
    """The table of our own kernels that the step calls; that of integer sums, too, where its kinds have INTEGER."""

    @abstractmethod
    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""

    @property
    def flop(self) -> int:
        """Floating-point operations of a layer, attention, convolution or product; 0 of any other step."""
        return 0

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """What the step needs of the fused kernels besides what they all have."""
        return frozenset()

    @property
    def c_declarations(self) -> tuple[str, ...]:
        """C declarations of XLA's functions that the step calls."""
        return ()

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """The buffers that the step itself reads, without those of steps inside it."""
        return tuple(buffer for use, buffer in _find_uses(self) if use in ("reads", "updates"))

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The buffers that the step itself writes, without those of steps inside it."""
        return tuple(buffer for use, buffer in _find_uses(self) if use in ("writes", "updates"))

    @property
    def scratch_buffers(self) -> tuple[Buffer, ...]:
        """Memory that the step needs only while it runs."""
        return tuple(buffer for use, buffer in _find_uses(self) if use == "scratch")

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer of the step itself, in the order of its fields."""
        return tuple(buffer for _, buffer in _find_uses(self))

    @property
    def scratch_size(self) -> int:
        """Bytes of scratch memory."""
        return sum(buffer.size for buffer in self.scratch_buffers)

    @property
    def bodies(self) -> tuple[Steps, ...]:
        """The sequences of steps inside it, in the order of its fields, without empty ones."""
        return tuple(_find_sequences(tuple(getattr(self, field.name) for field in fields(self))))

    def replace_buffers(self, reads: Sequence[Buffer], writes: Sequence[Buffer], scratch: Buffer | None) -> Self:
        """Return the step over other memory, in the order of ``reads`` and of ``writes``."""
        sources, targets = iter(reads), iter(writes)

        def move(buffer: Buffer, use: Use) -> Buffer:
            if use == "scratch":
                assert scratch is not None
                return scratch
            source = next(sources) if use in ("reads", "updates") else None
            target = next(targets) if use in ("writes", "updates") else None
            return target or source or buffer

        return move_buffers(self, move)


Steps = tuple[Step, ...]


def walk_steps(steps: Steps) -> list[Step]:
    """Every step, those inside cascades, calls, branches and loops included, in program order."""
    return [one for step in steps for one in (step, *(inner for body in step.bodies for inner in walk_steps(body)))]


def move_buffers(part: T, move: Callable[[Buffer, Use], Buffer], use: Use | None = None) -> T:
    """Return ``part`` (a step, a tuple of steps, or what they hold) with every buffer moved, nested steps included."""
    moved: Any = part
    if isinstance(part, Buffer):
        moved = move(part, _require_use(use))
    elif isinstance(part, tuple):
        moved = tuple(move_buffers(one, move, use) for one in part)
    elif is_dataclass(part) and not isinstance(part, type):
        own = {
            name: move_buffers(getattr(part, name), move, of or use)
            for name, of in _read_declared_uses(type(part)).items()
        }
        moved = replace(part, **own)
    return moved  # type: ignore[no-any-return]


def change_bodies(part: T, change: Callable[[Steps], Steps]) -> T:
    """Return a step with every sequence of steps inside it changed; empty ones stay."""
    changed: Any = part
    if isinstance(part, Step):
        own = {field.name: getattr(part, field.name) for field in fields(part)}
        changed = replace(part, **{name: change_bodies(value, change) for name, value in own.items()})
    elif isinstance(part, tuple) and part and all(isinstance(one, Step) for one in part):
        changed = change(part)
    elif isinstance(part, tuple):
        changed = tuple(change_bodies(one, change) for one in part)
    return changed  # type: ignore[no-any-return]


def _find_uses(part: object, use: Use | None = None) -> Iterator[tuple[Use, Buffer]]:
    """Yield every buffer of ``part`` and how it is used, without those of steps inside it."""
    if isinstance(part, Buffer):
        yield _require_use(use), part
    elif isinstance(part, tuple):
        for one in part:
            if not isinstance(one, Step):
                yield from _find_uses(one, use)
    elif is_dataclass(part) and not isinstance(part, type):
        for name, own in _read_declared_uses(type(part)).items():
            yield from _find_uses(getattr(part, name), own or use)


def _require_use(use: Use | None) -> Use:
    if use is None:
        raise TypeError(
            "a field of a step that holds a buffer must have a type of builder/compiler/lower/steps/base.py"
        )
    return use


@functools.cache
def _read_declared_uses(kind: type) -> Mapping[str, Use | None]:
    """Return what each field of a dataclass says of the buffers in it."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: getattr(hints[field.name], "__metadata__", (None,))[0] for field in fields(kind)}


def _find_sequences(part: object) -> Iterator[Steps]:
    if isinstance(part, tuple) and part and all(isinstance(one, Step) for one in part):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _find_sequences(one)
