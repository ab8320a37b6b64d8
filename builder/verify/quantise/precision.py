"""Number types of a library, and the choice among them that ``auto`` makes by accuracy and time.

Smaller weights are for a smaller library, so time does not count if only they are wanted. int8 activations are for
speed: if they are wanted, ``auto`` takes nothing that is slower than float32 on any instruction set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from builder.base.records import read_part
from builder.config import Activations, ActivationType, ModelSpec, WeightType


@dataclass(frozen=True)
class Precision:
    """Number types of a library: that of its weights, and that to which its layers' inputs are rounded."""

    weights: WeightType
    activations: ActivationType = "float32"

    def __str__(self) -> str:
        return f"{self.weights}, {self.activations} activations" if self.activations != "float32" else self.weights

    @property
    def folder(self) -> str:
        """Part of a folder's name that tells its precision."""
        return f"{self.weights}-activations" if self.activations != "float32" else self.weights


FLOAT32 = Precision("float32")

KINDS = (FLOAT32, Precision("float16"), Precision("bfloat16"), Precision("int8"), Precision("int8", "int8"))

SMALLEST_FIRST = (Precision("int8", "int8"), Precision("int8"), Precision("float16"), Precision("bfloat16"))
"""The kinds smaller than float32, which always suffices. float16 is as large as bfloat16, and three bits finer."""


def apply_precision(spec: ModelSpec, kind: Precision) -> ModelSpec:
    """Return ``spec`` with the types of ``kind``; with its own activations, if it has any and ``kind`` allows it."""
    weights, images = replace(spec.weights, type=kind.weights), spec.activations.images or spec.weights.images
    if kind.activations == "float32":
        layers = tuple(replace(layer, activations=None) for layer in spec.layers)
        return replace(spec, weights=weights, activations=Activations(), layers=layers)
    own: ActivationType = spec.activations.type if spec.calibrated else "int8"
    return replace(spec, weights=weights, activations=Activations(own, images))


MARGINS = {1: 1.02, 2: 1.1}
"""Multiple of float32's time that is still not slower, by threads. A library and its copy mostly differ by less.

Two threads differ by more if the machine has other work and no third processor.
"""


@dataclass(frozen=True)
class Ratio:
    """A library's ``time`` as a multiple of the float32 one's, with the instruction set ``isa``, on ``threads``."""

    isa: str
    threads: int
    time: float

    def __str__(self) -> str:
        return f"{self.isa} on {_describe_threads(self.threads)}"

    @property
    def slower(self) -> bool:
        """True if it is slower by more than noise."""
        return self.time > MARGINS[self.threads]


@dataclass(frozen=True)
class Timing:
    """Time of a library in relation to the float32 one.

    ``lacking``: instruction sets that it has kernels for, but the measuring machine does not support.
    """

    ratios: tuple[Ratio, ...]
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True)
class TriedPrecision:
    """A precision that was tried. ``agreement``: the share of the inputs with TensorFlow's top class.

    ``timing``: None if not measured: it does not count, cannot be measured here, or the accuracy was too low anyway.
    """

    kind: Precision
    agreement: float
    timing: Timing | None = None

    @property
    def slower(self) -> tuple[Ratio, ...]:
        """The measurements in which it is slower than float32."""
        return tuple(ratio for ratio in self.timing.ratios if ratio.slower) if self.timing else ()

    def is_good_enough(self, accuracy: float) -> bool:
        """Return whether it is accurate enough, and nowhere slower than float32 by more than noise."""
        return self.agreement >= accuracy and not self.slower


@dataclass(frozen=True)
class PrecisionChoice:
    """The kinds ``tried`` one after the other on ``inputs``, until one reached the wanted share ``accuracy``.

    ``untimed``: the reason why time was not measured, although it counts.
    """

    accuracy: float
    inputs: str
    tried: tuple[TriedPrecision, ...]
    untimed: str = ""

    @property
    def chosen(self) -> Precision:
        """The first kind that is good enough; float32 if none is."""
        return next((entry.kind for entry in self.tried if entry.is_good_enough(self.accuracy)), FLOAT32)

    def find_timing(self, kind: Precision) -> Timing | None:
        """Return the timing of ``kind``, if it was measured."""
        return next((entry.timing for entry in self.tried if entry.kind == kind), None)

    def describe_choice(self) -> Iterator[str]:
        """Yield lines of text for the user."""
        if self.untimed:
            yield f"time was not measured, as {self.untimed}: accuracy alone decides"
        for entry in self.tried:
            yield f"{entry.kind}: {100 * entry.agreement:.2f} % of {self.inputs} agree with TensorFlow"
            if entry.timing:
                yield from (f"  {line}" for line in _describe_times(entry.timing))
            if entry.slower:
                yield f"  passed over, as slower than float32: {', '.join(map(str, entry.slower))}"
        yield f"taken: {self.chosen}"

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for JSON."""
        return {"chosen": asdict(self.chosen), **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrecisionChoice:
        """Read the result of ``to_dict``. Raises KeyError, TypeError or ValueError for anything else."""
        choice = read_part(cls, data)
        ratios = (ratio for entry in choice.tried if entry.timing for ratio in entry.timing.ratios)
        if unknown := {ratio.threads for ratio in ratios} - MARGINS.keys():
            raise ValueError(f"times on {unknown} threads")
        return choice


def _describe_times(timing: Timing) -> Iterator[str]:
    for threads in dict.fromkeys(ratio.threads for ratio in timing.ratios):
        times = [f"{ratio.isa} {ratio.time:.2f}" for ratio in timing.ratios if ratio.threads == threads]
        yield f"time, float32's being 1, on {_describe_threads(threads)}: {', '.join(times)}"
    if timing.lacking:
        yield f"not measured, as this machine does not run them: {', '.join(timing.lacking)}"


def _describe_threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
