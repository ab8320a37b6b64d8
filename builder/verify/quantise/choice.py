"""Which kind of numbers ``auto`` takes: what was tried, how it did in accuracy and in time, and the rule.

Smaller weights are for a smaller library, so time does not count where only they are asked for. int8 activations are
for speed. Where those are asked for, nothing is taken that is slower than float32 on any instruction set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from builder.base.records import read_part
from builder.verify.quantise.number_types import FLOAT32, Precision

MARGINS = {1: 1.02, 2: 1.1}
"""By threads, the multiple of float32's time that is still not slower. A library and its copy mostly differ by less.

Two threads differ by more where the machine has other work and no third processor.
"""


@dataclass(frozen=True)
class Ratio:
    """``time``: a library's, as a multiple of the float32 one's, with the instruction set ``isa``, on ``threads``."""

    isa: str
    threads: int
    time: float

    def __str__(self) -> str:
        return f"{self.isa} on {_describe_threads(self.threads)}"

    @property
    def slower(self) -> bool:
        """By more than noise."""
        return self.time > MARGINS[self.threads]


@dataclass(frozen=True)
class Timing:
    """How long a library takes beside the float32 one.

    ``lacking``: instruction sets that it has kernels for, and the machine of the measurement does not have.
    """

    ratios: tuple[Ratio, ...]
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True)
class TriedPrecision:
    """``agreement``: the share of the inputs with TensorFlow's top class. ``timing``: None where none was measured,
    because it does not count, cannot be measured here, or the accuracy was too low anyway."""

    kind: Precision
    agreement: float
    timing: Timing | None = None

    @property
    def slower(self) -> tuple[Ratio, ...]:
        """Where it is slower than float32."""
        return tuple(ratio for ratio in self.timing.ratios if ratio.slower) if self.timing else ()

    def is_good_enough(self, accuracy: float) -> bool:
        """The rule: accurate enough, and nowhere slower than float32 by more than noise."""
        return self.agreement >= accuracy and not self.slower


@dataclass(frozen=True)
class PrecisionChoice:
    """``tried``: one kind after the other, on ``inputs``, until one held what was wanted: the share ``accuracy``.

    ``untimed``: why time was not measured, where it counts.
    """

    accuracy: float
    inputs: str
    tried: tuple[TriedPrecision, ...]
    untimed: str = ""

    @property
    def chosen(self) -> Precision:
        """float32 where nothing that was tried holds."""
        return next((one.kind for one in self.tried if one.is_good_enough(self.accuracy)), FLOAT32)

    def find_timing(self, kind: Precision) -> Timing | None:
        """What was measured of ``kind``."""
        return next((one.timing for one in self.tried if one.kind == kind), None)

    def describe_choice(self) -> Iterator[str]:
        """For a person."""
        if self.untimed:
            yield f"time was not measured, as {self.untimed}: accuracy alone decides"
        for one in self.tried:
            yield f"{one.kind}: {100 * one.agreement:.2f} % of {self.inputs} agree with TensorFlow"
            if one.timing:
                yield from (f"  {line}" for line in _describe_times(one.timing))
            if one.slower:
                yield f"  passed over, as slower than float32: {', '.join(map(str, one.slower))}"
        yield f"taken: {self.chosen}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"chosen": asdict(self.chosen), **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrecisionChoice:
        """What ``to_dict`` made. Raises KeyError, TypeError or ValueError for anything else."""
        choice = read_part(cls, data)
        ratios = (ratio for one in choice.tried if one.timing for ratio in one.timing.ratios)
        if unknown := {ratio.threads for ratio in ratios} - MARGINS.keys():
            raise ValueError(f"times on {unknown} threads")
        return choice


def _describe_times(timing: Timing) -> Iterator[str]:
    for threads in dict.fromkeys(ratio.threads for ratio in timing.ratios):
        found = [f"{ratio.isa} {ratio.time:.2f}" for ratio in timing.ratios if ratio.threads == threads]
        yield f"time, float32's being 1, on {_describe_threads(threads)}: {', '.join(found)}"
    if timing.lacking:
        yield f"not measured, as this machine does not run them: {', '.join(timing.lacking)}"


def _describe_threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
