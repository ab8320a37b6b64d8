"""Agreement of an output with TensorFlow's, element by element, as pure arithmetic on arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from builder.base.arrays import Array
from builder.config import OutputKind, Tolerance
from builder.config.tensor import TensorSpec

Scalar = float | int | bool

MOST_SENSITIVE = 1e-3
"""The greatest sensitivity that counts: an answer that moves further at one ulp jumps, and would excuse any error."""


def allowed_sensitivity(sensitivity: float) -> float:
    """Return the error allowed for an output's ``sensitivity``, both as shares of a case's largest magnitude.

    It is twice as much, since our answer is as uncertain as TensorFlow's.
    """
    return 2 * min(sensitivity, MOST_SENSITIVE)


@dataclass(frozen=True)
class Worst:
    """The element with the largest error in relation to the allowed one."""

    case: str
    index: tuple[int, ...]
    ours: Scalar
    theirs: Scalar
    error: float
    allowed: float


@dataclass(frozen=True)
class OutputAgreement:
    """Agreement of one output over all golden cases.

    ``max_absolute`` is the largest |ours - theirs|; ``max_relative`` the largest |ours - theirs| / |theirs|
    among elements where |theirs| is at least the absolute tolerance (below it that ratio is meaningless).
    ``worst`` is None when every element is the same to the last bit.
    """

    output: str
    fetch: str
    kind: OutputKind
    dtype: str
    exact: bool  # integers and booleans must be equal
    absolute: float
    relative: float
    sensitivity: float  # of TensorFlow's own answer, as a share of a case's largest magnitude; see ``compare_output``
    elements: int  # over all cases
    beyond: int  # elements outside the tolerance
    max_absolute: float
    max_relative: float
    worst: Worst | None
    top1_rows: int  # 0 when the output is not a classification
    top1_ties: int  # another class, but TensorFlow's two values are within the tolerance
    top1_wrong: int
    top1_example: str  # the first disagreement, in words
    constant: bool  # TensorFlow's answer is the same, within the tolerance, for every golden input

    @property
    def passed(self) -> bool:
        """True if every element is within the tolerance, and every class the same or a tie."""
        return not self.beyond and not self.top1_wrong

    def describe_rule(self, answer: str) -> str:
        """Describe the allowed error in words; ``answer`` stands for the magnitude of an element of TensorFlow's."""
        share = allowed_sensitivity(self.sensitivity)
        return f"{self.absolute:g} + {self.relative:g} × {answer}" + (f" + {share:.1g} × max {answer}" if share else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON, with a string for each number that JSON lacks (nan, infinities)."""
        cleaned: dict[str, Any] = make_jsonable(asdict(self) | {"passed": self.passed})
        return cleaned


MAP_SHARE = 0.001
"""Share of a class map's pixels that may have another class: two classes may differ only in their last bits."""


def count_tolerated(kind: OutputKind, dtype: str, elements: int) -> int:
    """Return how many of a case's ``elements`` may be off: MAP_SHARE of a class map, and none of any other output."""
    return int(MAP_SHARE * elements) if kind == "segmentation" and not dtype.startswith("float") else 0


def compare_output(
    output: str,
    fetch: TensorSpec,
    kind: OutputKind,
    tolerance: Tolerance,
    answers: Iterable[tuple[str, Array, Array]],
    sensitivity: float = 0.0,
) -> OutputAgreement:
    """Compare (case, ours, theirs) arrays of ``fetch``'s dtype and shape, or of the shape that the data decides.

    Floating point: |ours - theirs| <= absolute + relative * |theirs|, NaN equal to NaN, infinities equal
    by sign. Integers and booleans: equal. ``sensitivity``: the distance that TensorFlow's answer moves when its weights
    and inputs move by one ulp, as a share of a case's largest magnitude; ``allowed_sensitivity`` is allowed on top.
    """
    exact = not fetch.dtype.startswith("float")
    if exact:
        tolerance, sensitivity = Tolerance(0.0, 0.0), 0.0
    elements = beyond = rows = ties = wrong = cases = 0
    max_absolute = max_relative = worst_ratio = 0.0
    worst: Worst | None = None
    example = ""
    first: Array | None = None
    constant = True
    for case, ours, theirs in answers:
        cases += 1
        error, allowed = measure_errors(ours, theirs, tolerance, allowed_sensitivity(sensitivity))
        elements += error.size
        off = int(np.count_nonzero(~(error <= allowed)))  # also counts elements where either is NaN
        if off > count_tolerated(kind, fetch.dtype, error.size):
            beyond += off
        first = theirs if first is None else first
        constant = constant and _is_alike(theirs, first, tolerance)
        if error.size == 0:
            continue
        max_absolute = max(max_absolute, float(error.max()))
        max_relative = max(max_relative, _max_relative(error, theirs, tolerance.absolute))
        ratio = used_share(error, allowed)
        at = int(ratio.argmax())
        if ratio.flat[at] > worst_ratio:
            worst_ratio = float(ratio.flat[at])
            index = tuple(int(i) for i in np.unravel_index(at, error.shape))
            ours_there, theirs_there = ours[index].item(), theirs[index].item()
            worst = Worst(case, index, ours_there, theirs_there, float(error[index]), float(allowed[index]))
        if kind == "classification" and fetch.shape and fetch.shape[-1] > 1:
            row_count, tie_count, texts = _compare_top1(case, ours, theirs, allowed)
            rows, ties, wrong = rows + row_count, ties + tie_count, wrong + len(texts)
            example = example or next(iter(texts), "")
    return OutputAgreement(
        output=output,
        fetch=fetch.name,
        kind=kind,
        dtype=fetch.dtype,
        exact=exact,
        absolute=tolerance.absolute,
        relative=tolerance.relative,
        sensitivity=sensitivity,
        elements=elements,
        beyond=beyond,
        max_absolute=max_absolute,
        max_relative=max_relative,
        worst=worst,
        top1_rows=rows,
        top1_ties=ties,
        top1_wrong=wrong,
        top1_example=example,
        constant=constant and cases > 0 and elements > 0,
    )


def _is_alike(one: Array, other: Array, tolerance: Tolerance) -> bool:
    if one.shape != other.shape:
        return False
    spread, allowed = measure_errors(one, other, tolerance)
    return bool(np.all(spread <= allowed))


def measure_errors(ours: Array, theirs: Array, tolerance: Tolerance, share: float = 0.0) -> tuple[Array, Array]:
    """Return |ours - theirs| and the allowed error, by element, as float64. NaN against a number is infinite.

    ``share``: the share of the largest finite magnitude in ``theirs`` that is allowed besides the tolerance.
    """
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        if ours.dtype.kind == "f":
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            error = np.where(np.isnan(error), np.inf, error)
        else:
            # Two 64-bit integers may differ and yet be one float64.
            same = np.asarray(ours == theirs)
            error = np.maximum(error, 1.0)
        absolute = tolerance.absolute
        if share:
            absolute += share * float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        allowed = np.where(np.isfinite(b), absolute + tolerance.relative * np.abs(b), 0.0)
    return np.where(same, 0.0, error), allowed


def used_share(error: Array, allowed: Array) -> Array:
    """Return the used share of the allowed error: 0 for no error, infinite if nothing is allowed."""
    with np.errstate(all="ignore"):
        return np.where(error == 0.0, 0.0, error / allowed)


def _max_relative(error: Array, theirs: Array, floor: float) -> float:
    magnitude = np.abs(theirs.astype(np.float64))
    counted = np.isfinite(magnitude) & (magnitude >= floor) & (magnitude > 0.0)
    with np.errstate(all="ignore"):
        return float((error[counted] / magnitude[counted]).max(initial=0.0))


def _compare_top1(case: str, ours: Array, theirs: Array, allowed: Array) -> tuple[int, int, list[str]]:
    """Count the rows compared and the ties among them, and describe each row whose highest class is another."""
    ours, theirs, allowed = (array.reshape(-1, array.shape[-1]) for array in (ours, theirs, allowed))
    rows = [row for row, values in enumerate(theirs) if not np.isnan(values).any()]
    ties, texts = 0, []
    for row in rows:
        mine, other = int(ours[row].argmax()), int(theirs[row].argmax())
        if mine == other:
            continue
        if float(theirs[row, other]) - float(theirs[row, mine]) <= float(allowed[row, other]):
            ties += 1
        else:
            texts.append(f"case {case}, row {row}: ours is class {mine}, TensorFlow's is class {other}")
    return len(rows), ties, texts


def make_jsonable(value: Any) -> Any:
    """Return ``value`` with a string for each number that JSON lacks (nan, infinities)."""
    if isinstance(value, dict):
        return {key: make_jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [make_jsonable(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
