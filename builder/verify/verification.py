"""Result of verifying a library, and the messages about one that does not pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from builder.base.errors import VerifyError
from builder.importers.samples.golden_inputs import NOT_FINITE
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
        """True if no output is off, and nothing else is wrong."""
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


def require_passed(verification: Verification) -> None:
    """Raise VerifyError naming, for every output that disagrees, the worst element and its case."""
    if verification.passed:
        return
    off = [row for row in verification.outputs if not row.passed]
    off_alike = [row for row in verification.same_weights if not row.passed]
    lines = [f"  {text}" for row in off for text in _describe_disagreement(row)]
    lines += [f"  with the same rounded weights, {text}" for row in off_alike for text in _describe_disagreement(row)]
    lines += [f"  {verification.library} misbehaves: {text}." for text in verification.failures]
    advice = "This is a bug in coldforge: report it with the model's build folder."
    if off or off_alike:
        advice = (
            "If the model can live with this difference, raise `absolute` or `relative` for the "
            "output in model.toml; otherwise report it with the model's build folder. `coldforge verify --layers` "
            "names the first step that is off."
        )
    if off and all(row.worst and row.worst.case in NOT_FINITE for row in off):
        named = [text for text in verification.warnings if text.startswith(UNLIKE_TENSORFLOW)]
        unnamed = f"{UNLIKE_TENSORFLOW}: `coldforge verify --layers` names the first step that is off"
        advice = (
            f"{'. '.join(named or [unnamed])}. Without `nan = true` in model.toml the function refuses such numbers."
        )
    if verification.too_coarse:
        advice = (
            "The library does what it should: with the same rounded weights TensorFlow agrees. "
            "They are too coarse for this model: choose another `[weights] type` in model.toml (or `[activations] "
            "type`, if it has one), or leave those layers as they are that matter most, with [[layers]]."
        )
    raise VerifyError(
        "\n".join([f"{verification.library} does not pass verification:", *lines, f"Nothing was packed. {advice}"])
    )


def explain_failure(verification: Verification) -> str:
    """Describe briefly why a library did not pass: the output that is furthest off. The text is empty if it passed."""
    for row in (*verification.same_weights, *verification.outputs):
        if row.beyond and row.worst:
            return f"output {row.output} is off by {row.worst.error:.3g} where {row.worst.allowed:.3g} is allowed"
        if row.top1_wrong:
            return f"output {row.output} has another top class in {row.top1_wrong:,} of {row.top1_rows:,} rows"
    return f"the library misbehaves: {verification.failures[0]}" if verification.failures else ""


def _describe_disagreement(row: OutputAgreement) -> Iterator[str]:
    name = row.output if row.output == row.fetch else f"{row.output} (fetch {row.fetch})"
    if row.beyond and row.worst:
        worst = row.worst
        rule = "must be equal" if row.exact else "allowed " + row.describe_rule("|TensorFlow's|")
        yield (
            f"output {name}: {row.beyond:,} of {row.elements:,} elements disagree with TensorFlow ({rule}). "
            f"Worst: case {worst.case}, element {list(worst.index)}: ours {worst.ours!r}, "
            f"TensorFlow's {worst.theirs!r}, off by {worst.error:.3g} where {worst.allowed:.3g} is allowed."
        )
    if row.top1_wrong:
        yield (
            f"output {name}: the top class differs in {row.top1_wrong:,} of {row.top1_rows:,} rows. "
            f"First: {row.top1_example}."
        )
