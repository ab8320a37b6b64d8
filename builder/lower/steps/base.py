"""The base of all steps: everything that a step's fields declare, and what is asked of every kind of step."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol, Self, TypeVar, get_type_hints

from builder.lower.steps.memory import Buffer, Use

T = TypeVar("T")

KernelTable = Literal["fused", "attention", "integer"]
"""A table of our own kernels, compiled for each instruction set: ``cf_<name>_tables``."""

KernelKind = Literal["INTEGER", "SMALL_WEIGHTS", "CONVOLUTIONS", "HARD_SWISH", "NORM", "RECURRENT", "ONE_BY_ONE"]
"""A part of the fused kernels that not every program needs: ``CF_HAS_<name>`` in runtime/fused/fused.h."""


class StepPrinter(Protocol):
    """The part of a printer that the steps with other steps inside them need."""

    probed: dict[int, int]
    """Step numbers by id(), of steps that tell when they begin."""

    def function(self, steps: Steps) -> str:
        """Print the C function that runs ``steps``, and return its name."""


@dataclass(frozen=True)
class Step(ABC):
    """One thing that a program does. ``name``: that of XLA's instruction.

    A subclass is a frozen dataclass. Each of its fields that holds buffers has one of the types of memory.py
    (``Reads``, ``Writes``, ``Updates``, ``Scratch``): that is the one place where it is said how the step uses them.
    """

    name: str

    @abstractmethod
    def c_lines(self, printer: StepPrinter) -> list[str]:
        """Return the lines of C that run the step."""

    @property
    def flop(self) -> int:
        """Floating-point operations of a layer, attention, convolution or product; 0 of any other step."""
        return 0

    @property
    def kernel_tables(self) -> frozenset[KernelTable]:
        """The tables of kernels that the step calls."""
        return frozenset()

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
        return tuple(buffer for use, buffer in _uses(self) if use in ("reads", "updates"))

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The buffers that the step itself writes, without those of steps inside it."""
        return tuple(buffer for use, buffer in _uses(self) if use in ("writes", "updates"))

    @property
    def scratch_buffers(self) -> tuple[Buffer, ...]:
        """Memory that the step needs only while it runs."""
        return tuple(buffer for use, buffer in _uses(self) if use == "scratch")

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer of the step itself, in the order of its fields."""
        return tuple(buffer for _, buffer in _uses(self))

    @property
    def scratch_size(self) -> int:
        """Bytes of scratch memory."""
        return sum(buffer.size for buffer in self.scratch_buffers)

    @property
    def nested(self) -> Steps:
        """The steps inside it, in the order of its fields."""
        return tuple(_steps_in(tuple(getattr(self, field.name) for field in fields(self))))

    def rebuild(self, reads: Sequence[Buffer], writes: Sequence[Buffer], scratch: Buffer | None) -> Self:
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


def walk(steps: Steps) -> list[Step]:
    """Every step, those inside cascades, calls, branches and loops included, in program order."""
    return [one for step in steps for one in (step, *walk(step.nested))]


def move_buffers(part: T, move: Callable[[Buffer, Use], Buffer], use: Use | None = None) -> T:
    """Return ``part`` (a step, a tuple of steps, or what they hold) with every buffer moved, nested steps included."""
    moved: Any = part
    if isinstance(part, Buffer):
        moved = move(part, _required(use))
    elif isinstance(part, tuple):
        moved = tuple(move_buffers(one, move, use) for one in part)
    elif is_dataclass(part) and not isinstance(part, type):
        own = {name: move_buffers(getattr(part, name), move, of or use) for name, of in _declared(type(part)).items()}
        moved = replace(part, **own)
    return moved  # type: ignore[no-any-return]


def _uses(part: object, use: Use | None = None) -> Iterator[tuple[Use, Buffer]]:
    """Yield every buffer of ``part`` and how it is used, without those of steps inside it."""
    if isinstance(part, Buffer):
        yield _required(use), part
    elif isinstance(part, tuple):
        for one in part:
            if not isinstance(one, Step):
                yield from _uses(one, use)
    elif is_dataclass(part) and not isinstance(part, type):
        for name, own in _declared(type(part)).items():
            yield from _uses(getattr(part, name), own or use)


def _required(use: Use | None) -> Use:
    if use is None:
        raise TypeError("a field of a step that holds a buffer must have a type of builder/lower/steps/memory.py")
    return use


@functools.cache
def _declared(kind: type) -> Mapping[str, Use | None]:
    """Return what each field of a dataclass says of the buffers in it."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: getattr(hints[field.name], "__metadata__", (None,))[0] for field in fields(kind)}


def _steps_in(part: object) -> Iterator[Step]:
    if isinstance(part, Step):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _steps_in(one)
