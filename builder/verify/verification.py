"""What verifying a library found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from builder.verify.agreement import OutputAgreement
from builder.verify.target_runner import HERE

UNLIKE_TENSORFLOW = "NaN and infinities get other answers than TensorFlow's"
"""The beginning of the warning that names the ops where they do."""


@dataclass(frozen=True)
class Verification:
    """What verifying found. ``failures`` are misbehaviours other than a wrong number; ``warnings`` do not
    stop a build."""

    library: str
    cases: tuple[str, ...]
    outputs: tuple[OutputAgreement, ...]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    machine: str = HERE.name  # what ran it; "" when nothing here could: then there are no cases, and a warning
    same_weights: tuple[OutputAgreement, ...] = ()
    """Where weights are rounded: against TensorFlow with the rounded ones, at the spec's own tolerance, and with inputs
    rounded too, within ``FLIPPED_SHARE`` more."""

    @property
    def passed(self) -> bool:
        return not self.failures and all(output.passed for output in (*self.outputs, *self.same_weights))

    @property
    def too_coarse(self) -> bool:
        """Whether rounding alone is at fault: with the same rounding TensorFlow agrees."""
        right = bool(self.same_weights) and all(output.passed for output in self.same_weights)
        return right and not self.failures and not self.passed

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "library": self.library,
            "passed": self.passed,
            "run_by": self.machine or None,
            "cases": list(self.cases),
            "outputs": [output.to_dict() for output in self.outputs],
            "same_weights": [output.to_dict() for output in self.same_weights],
            "failures": list(self.failures),
            "warnings": list(self.warnings),
        }


def merge_verifications(verifications: Mapping[str, Verification]) -> Verification:
    """One of several, by what they are of in words: the first as it is, what the others found with these words."""
    (_, first), *others = verifications.items()
    outputs, same, cases, failures, warnings = (
        [*x] for x in (first.outputs, first.same_weights, first.cases, first.failures, first.warnings)
    )
    for says, other in others:
        outputs += [replace(row, output=f"{row.output} {says}") for row in other.outputs]
        same += [replace(row, output=f"{row.output} {says}") for row in other.same_weights]
        cases += [f"{case} {says}" for case in other.cases]
        failures += [f"{text} ({says})" for text in other.failures]
        warnings += [f"{text} ({says})" for text in other.warnings if text not in warnings]
    return replace(
        first,
        outputs=tuple(outputs),
        same_weights=tuple(same),
        cases=tuple(cases),
        failures=tuple(failures),
        warnings=tuple(warnings),
    )
