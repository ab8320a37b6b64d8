"""Base of all steps: the memory they use, the types of their fields, and the methods that every kind has.

Offsets and sizes are bytes, strides are elements.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_type_hints

from builder.base.targets import KernelTable

ALIGNMENT = 64
"""Alignment in bytes that XLA's kernels assume of every buffer (``min_alignment`` in the thunk)."""


def align_offset(offset: int) -> int:
    """Return the first aligned offset that is not below ``offset``."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


Space = Literal["arena", "weights", "feed"]


@dataclass(frozen=True)
class Buffer:
    """``size`` bytes at ``offset`` in the writable arena or in the read-only weights.

    In the space "feed" they are those of feed number ``offset`` in the caller's memory, with any alignment.
    """

    space: Space
    offset: int
    size: int

    def overlaps_buffer(self, other: Buffer) -> bool:
        """Return whether any byte belongs to both."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


UNPLACED = Buffer("arena", 0, 0)
"""Buffer of a matched step before it has a place in memory."""


@dataclass(frozen=True)
class View:
    """A float32 NHWC tensor inside a buffer that may have a halo or padded pixels; strides are in floats.

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
"""Type of a field with buffers that the step reads, its weights among them. ``T`` is a Buffer or contains buffers:
a View, a tuple, or a dataclass whose own fields do not declare how they are used."""
Writes = Annotated[T, "writes"]
"""Type of a field with buffers that the step writes in full."""
Updates = Annotated[T, "updates"]
"""Type of a field with buffers that the step reads and then writes."""
Scratch = Annotated[T, "scratch"]
"""Type of a field with memory that the step needs only while it runs."""

KernelKind = Literal["INTEGER", "SMALL_WEIGHTS", "CONVOLUTIONS", "HARD_SWISH", "NORM", "RECURRENT", "ONE_BY_ONE"]
"""A part of the fused kernels that not every program needs: ``CF_HAS_<name>`` in runtime/fused/fused.h."""


class StepPrinter(Protocol):
    """Part of a printer that steps with other steps inside them need."""

    probed: dict[int, int]
    """Numbers of steps that report when they begin, by their id()."""

    def print_function(self, steps: Steps) -> str:
        """Print the C function that runs ``steps``, and return its name."""


@dataclass(frozen=True)
class Step(ABC):
    """One operation of a program, with the ``name`` of XLA's instruction.

    A subclass is a frozen dataclass. Each of its fields that holds buffers has one of the types above (``Reads``,
    ``Writes``, ``Updates``, ``Scratch``), and nothing else declares how the step uses them.
    """

    name: str

    kernel_table: ClassVar[KernelTable | None] = None
    """Table of our own kernels that the step calls, and that of integer sums too if its kinds have "INTEGER"."""

    @abstractmethod
    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""

    @property
    def flop(self) -> int:
        """Floating-point operations of a layer, attention, convolution or product; 0 for any other step."""
        return 0

    @property
    def kernel_kinds(self) -> frozenset[KernelKind]:
        """Optional parts of the fused kernels that the step needs."""
        return frozenset()

    @property
    def c_declarations(self) -> tuple[str, ...]:
        """C declarations of XLA's functions that the step calls."""
        return ()

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """Buffers that the step itself reads, without those of steps inside it."""
        return tuple(buffer for use, buffer in _find_uses(self) if use in ("reads", "updates"))

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """Buffers that the step itself writes, without those of steps inside it."""
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
        """Sequences of steps inside it, in the order of its fields, without empty ones."""
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
    """List every step in program order, those inside cascades, calls, branches and loops included."""
    return [sub for step in steps for sub in (step, *(inner for body in step.bodies for inner in walk_steps(body)))]


def move_buffers(part: T, move: Callable[[Buffer, Use], Buffer], use: Use | None = None) -> T:
    """Return ``part`` (a step, a tuple of steps, or a part of one) with every buffer moved, nested steps included."""
    moved: Any = part
    if isinstance(part, Buffer):
        moved = move(part, _require_use(use))
    elif isinstance(part, tuple):
        moved = tuple(move_buffers(item, move, use) for item in part)
    elif is_dataclass(part) and not isinstance(part, type):
        values = {
            name: move_buffers(getattr(part, name), move, of or use)
            for name, of in _read_declared_uses(type(part)).items()
        }
        moved = replace(part, **values)
    return moved  # type: ignore[no-any-return]


def change_bodies(part: T, change: Callable[[Steps], Steps]) -> T:
    """Return a step with every sequence of steps inside it changed; empty ones stay."""
    changed: Any = part
    if isinstance(part, Step):
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        changed = replace(part, **{name: change_bodies(value, change) for name, value in values.items()})
    elif isinstance(part, tuple) and part and all(isinstance(item, Step) for item in part):
        changed = change(part)
    elif isinstance(part, tuple):
        changed = tuple(change_bodies(item, change) for item in part)
    return changed  # type: ignore[no-any-return]


def _find_uses(part: object, use: Use | None = None) -> Iterator[tuple[Use, Buffer]]:
    """Yield every buffer of ``part`` and how it is used, without those of steps inside it."""
    if isinstance(part, Buffer):
        yield _require_use(use), part
    elif isinstance(part, tuple):
        for item in part:
            if not isinstance(item, Step):
                yield from _find_uses(item, use)
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
    """Return the use that each field of a dataclass declares for its buffers."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: getattr(hints[field.name], "__metadata__", (None,))[0] for field in fields(kind)}


def _find_sequences(part: object) -> Iterator[Steps]:
    if isinstance(part, tuple) and part and all(isinstance(item, Step) for item in part):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _find_sequences(item)
