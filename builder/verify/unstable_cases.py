"""Golden cases on which TensorFlow itself is undecided, and which therefore judge no library.

Where 0 is divided by 0, or a threshold lies just at the input, an answer jumps when a number moves in its last place.
TensorFlow on another processor would answer otherwise, and so may a library that is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from builder.base.arrays import Array
from builder.config import Tolerance
from builder.verify.agreement import MOST_SENSITIVE, allowed_sensitivity, measure_errors
from builder.verify.expected_answers import ExpectedOutput

ENOUGH = 3
"""Number of cases that must be left if TensorFlow is undecided on others."""
MOST_ALLOWED = allowed_sensitivity(MOST_SENSITIVE)
"""Share of the largest magnitude of an answer that a library may be off, whatever the sensitivity."""


def find_unstable_cases(
    outputs: Sequence[ExpectedOutput],
    answers: Mapping[str, Mapping[str, Array]],
    moved: Mapping[str, Mapping[str, Array]],
    when: str,
    share: float = MOST_ALLOWED,
) -> dict[str, str]:
    """Return the cases whose answer moves further than any library may be off, with the reason in words.

    ``answers`` and ``moved``: arrays by case and fetch; ``moved`` may lack cases. ``when``: the cause, in words.
    ``share``: the share of the largest magnitude of an answer that a library may be off.
    """
    reasons = {case: _describe_instability(outputs, answers[case], after, share) for case, after in moved.items()}
    return {case: f"{text} {when}" for case, text in reasons.items() if text}


def _describe_instability(
    outputs: Sequence[ExpectedOutput], before: Mapping[str, Array], after: Mapping[str, Array], most: float
) -> str:
    """Describe where TensorFlow's answer moves furthest beyond the allowed error; the text is empty if nowhere."""
    for output in outputs:
        name = output.fetch.name
        if after[name].shape != before[name].shape:
            sizes = f"{list(before[name].shape)} to {list(after[name].shape)}"
            return f"the size of TensorFlow's own {output.name} goes from {sizes}"
        exact = not output.fetch.dtype.startswith("float")
        tolerance = Tolerance(0.0, 0.0) if exact else loosen_to_default(output.tolerance)
        error, allowed = measure_errors(after[name], before[name], tolerance, 0.0 if exact else most)
        beyond = ~(error <= allowed)
        if beyond.any():
            at = np.unravel_index(int(np.where(beyond, error, -1.0).argmax()), error.shape)
            return f"TensorFlow's own {output.name} goes from {before[name][at]:.6g} to {after[name][at]:.6g}"
    return ""


def loosen_to_default(tolerance: Tolerance) -> Tolerance:
    """Return the most that a library may be off: a tolerance narrower than the default puts no case in doubt."""
    default = Tolerance()
    return Tolerance(max(tolerance.absolute, default.absolute), max(tolerance.relative, default.relative))
