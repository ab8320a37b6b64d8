"""What a verification says, and what rounded weights may cost: each number here decides what is packed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from builder.base.errors import VerifyError
from builder.config import Tolerance
from builder.config.tensor import TensorSpec
from builder.verify.agreement import OutputAgreement, compare_output
from builder.verify.expected_answers import Rounding
from builder.verify.verification import Verification, explain_failure, merge_verifications, require_passed


def output(name: str, error: float, kind: str = "raw", case: str = "zeros") -> OutputAgreement:
    """One that is ``error`` off where 0.1 is allowed."""
    theirs = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
    ours = theirs + np.array([[error, 0], [0, 0]], np.float32)
    return compare_output(name, TensorSpec(name, "float32", (2, 2)), kind, Tolerance(0.1, 0.0), [(case, ours, theirs)])  # type: ignore[arg-type]


GOOD, BAD = output("y", 0.0), output("y", 0.5)


def verification(
    *outputs: OutputAgreement, same: tuple[OutputAgreement, ...] = (), failures: tuple[str, ...] = ()
) -> Verification:
    return Verification("libmodel.so", ("zeros",), outputs, failures, (), "here", same)


@pytest.mark.parametrize(
    ("found", "passed", "too_coarse"),
    [
        (verification(GOOD), True, False),
        (verification(BAD), False, False),
        (verification(GOOD, BAD), False, False),
        (verification(GOOD, failures=("it leaks",)), False, False),
        (verification(GOOD, same=(GOOD,)), True, False),
        (verification(GOOD, same=(BAD,)), False, False),
        (verification(BAD, same=(GOOD,)), False, True),
        (verification(BAD, same=(GOOD, BAD)), False, False),
        (verification(BAD, same=(GOOD,), failures=("it leaks",)), False, False),
    ],
)
def test_what_passes_and_what_is_only_too_coarse(found: Verification, passed: bool, too_coarse: bool) -> None:
    assert (found.passed, found.too_coarse) == (passed, too_coarse)
    assert found.to_dict()["passed"] is passed
    assert bool(explain_failure(found)) is not passed
    if passed:
        require_passed(found)
        return
    with pytest.raises(VerifyError) as caught:
        require_passed(found)
    text = str(caught.value)
    assert ("too coarse for this model" in text) == too_coarse
    assert ("This is a bug in coldforge" in text) == (found.failures != () and all(o.passed for o in found.outputs))
    assert ("with the same rounded weights, output y" in text) == any(not o.passed for o in found.same_weights)
    assert ("  output y" in text) == any(not o.passed for o in found.outputs)
    assert ("libmodel.so misbehaves: it leaks." in text) == bool(found.failures)


@pytest.mark.parametrize(("cases", "advised"), [(("missing", "infinite"), True), (("missing", "zeros"), False)])
def test_who_may_not_take_nan_is_told_how_to_refuse_it(cases: tuple[str, ...], advised: bool) -> None:
    rows = [output(f"y{number}", 0.5, case=case) for number, case in enumerate(cases)]
    with pytest.raises(VerifyError) as caught:
        require_passed(verification(*rows))
    assert ("nan = true" in str(caught.value)) == advised


def test_the_reason_is_what_is_furthest_off() -> None:
    assert explain_failure(verification(BAD)) == "output y is off by 0.5 where 0.1 is allowed"
    other_class = compare_output(
        "y", TensorSpec("y", "float32", (1, 2)), "classification", Tolerance(0.1, 0.0),
        [("zeros", np.array([[0.49, 0.46]], np.float32), np.array([[0.4, 0.55]], np.float32))],
    )  # fmt: skip
    assert (other_class.beyond, other_class.top1_wrong) == (0, 1)
    assert explain_failure(verification(other_class)) == "output y has another top class in 1 of 1 rows"
    assert explain_failure(verification(GOOD, failures=("it leaks",))) == "the library misbehaves: it leaks"


def test_several_variants_are_one_verification() -> None:
    first = verification(GOOD, same=(GOOD,))
    second = verification(BAD, same=(BAD,), failures=("it leaks",))
    whole = merge_verifications({"": first, "of batch 4": second})
    assert not whole.passed
    assert [o.output for o in whole.outputs] == ["y", "y of batch 4"]
    assert [o.output for o in whole.same_weights] == ["y", "y of batch 4"]
    assert whole.cases == ("zeros", "zeros of batch 4")
    assert whole.failures == ("it leaks (of batch 4)",)
    assert merge_verifications({"": first}) == first


@pytest.mark.parametrize(
    ("kind", "share", "with_inputs"),
    [("float32", 0.0, 0.25), ("float16", 0.02, 0.27), ("bfloat16", 0.1, 0.35), ("int8", 0.25, 0.5)],
)
def test_how_far_rounding_may_move_an_answer(kind: str, share: float, with_inputs: float) -> None:
    weights = Rounding(kind, Path("golden.npz"))  # type: ignore[arg-type]
    assert (weights.share, weights.same_share) == (share, 0.0)
    inputs = Rounding(kind, Path("golden.npz"), inputs=True)  # type: ignore[arg-type]
    assert inputs.share == pytest.approx(with_inputs)
    assert inputs.same_share == 0.05
