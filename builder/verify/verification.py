"""Result of verifying a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from builder.verify.agreement import OutputAgreement
from builder.verify.target_runner import HERE

UNLIKE_TENSORFLOW = "NaN and infinities get other answers than TensorFlow's"
"""Beginning of the warning that names the ops with such answers."""


@dataclass(frozen=True)
class Verification:
    """Result of verifying a library.

    ``failures`` are misbehaviours other than a wrong number; ``warnings`` do not stop a build.
    """

    library: str
    cases: tuple[str, ...]
    outputs: tuple[OutputAgreement, ...]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    machine: str = HERE.name  # the machine that ran it; "" with a warning and no cases if no machine here could
    same_weights: tuple[OutputAgreement, ...] = ()
    """The agreement with TensorFlow on the same rounded weights, if weights are rounded.

    It is at the spec's own tolerance, and within ``FLIPPED_SHARE`` more if inputs are rounded too.
    """

    @property
    def passed(self) -> bool:
        return not self.failures and all(output.passed for output in (*self.outputs, *self.same_weights))

    @property
    def too_coarse(self) -> bool:
        """True if rounding alone is at fault, since TensorFlow agrees with the same rounding."""
        right = bool(self.same_weights) and all(output.passed for output in self.same_weights)
        return right and not self.failures and not self.passed

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
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
    """Merge verifications by description: the first as it is, the findings of the others with their description."""
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
