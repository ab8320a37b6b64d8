"""How far an answer moves when weights and inputs move by one ulp: what verification allows rests on these numbers.

And which golden cases TensorFlow is undecided on, by what its answers do when numbers move.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from builder.config import Tolerance
from builder.config.tensor import TensorSpec
from builder.verify.agreement import MOST_SENSITIVE
from builder.verify.expected_answers import ExpectedOutput
from builder.verify.reference_answers import explain_too_few
from builder.verify.sensitivity import (
    FLOATS,
    find_unstable_cases,
    measure_sensitivity,
    move_zeros,
    nudge_calls,
    nudge_values,
)

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_number_moves_to_one_of_its_neighbours(dtype: str) -> None:
    values = np.linspace(-3, 3, 1001).astype(dtype)
    values[values == 0] = 1
    moved = nudge_values(values, np.random.Generator(np.random.PCG64(1)))
    up, down = moved == np.nextafter(values, INF, dtype=dtype), moved == np.nextafter(values, -INF, dtype=dtype)
    assert moved.dtype == values.dtype
    assert (up | down).all()
    assert 300 < up.sum() < 700


def test_zeros_and_whole_numbers_stay() -> None:
    random = np.random.Generator(np.random.PCG64(1))
    np.testing.assert_array_equal(nudge_values(np.zeros(100, np.float32), random), 0)
    whole = np.arange(100)
    assert nudge_values(whole, random) is whole


def test_calls_are_moved_alike_each_time() -> None:
    calls = {case: {"x": np.ones(50, np.float32), "n": np.arange(3)} for case in ("a", "b")}
    first, again = nudge_calls(calls, {}), nudge_calls(calls, {})
    for case in calls:
        np.testing.assert_array_equal(first[case]["x"], again[case]["x"])
        np.testing.assert_array_equal(first[case]["n"], calls[case]["n"])
    assert not np.array_equal(first["a"]["x"], first["b"]["x"])


def shares(before: list[list[float]], after: list[list[float]]) -> dict[str, float]:
    answers, moved = (
        {str(i): {"y": np.array(row, np.float64)} for i, row in enumerate(rows)} for rows in (before, after)
    )
    return measure_sensitivity(answers, moved)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ([[1, -4, 2]], [[1, -4, 2]], 0.0),
        ([[1, -4, 2]], [[1.5, -4, 2]], 0.125),  # of the largest magnitude
        ([[1, -4, 2]], [[1, -4, 1]], 0.25),
        ([[1, -4], [1, 1]], [[1, -4], [1, 1.5]], 0.5),  # each case by its own
        ([[1, 1], [1, -4]], [[1, 1.5], [1, -4]], 0.5),
        ([[0, 0]], [[1, 1]], 0.0),
        ([[]], [[]], 0.0),
        ([[1, NAN]], [[1.5, 2]], 0.5),  # what is not finite in either counts for nothing
        ([[1, 2]], [[1.5, NAN]], 0.5),
        ([[1, INF]], [[1.5, INF]], 0.5),
        ([[1, 1]], [[1.5, -INF]], 0.5),
        ([[NAN]], [[1]], 0.0),
    ],
)
def test_the_greatest_change_as_a_share(before: list[list[float]], after: list[list[float]], share: float) -> None:
    assert shares(before, after) == {"y": share}


def test_whole_numbers_have_no_sensitivity() -> None:
    assert measure_sensitivity({"a": {"k": np.array([1])}}, {"a": {"k": np.array([2])}}) == {}


def test_a_small_answer_does_not_excuse_large_ones() -> None:
    answers = {"small": {"y": np.array([0.01], "f"), "n": np.array([1])}, "large": {"y": np.array([1.0], "f")}}
    moved = {"small": {"y": np.array([0.015], "f"), "n": np.array([2])}, "large": {"y": np.array([1.01], "f")}}
    assert measure_sensitivity(answers, moved) == pytest.approx({"y": 0.5}, rel=1e-4)
    assert measure_sensitivity(answers, moved, joint=True) == pytest.approx({"y": 0.01}, rel=1e-4)


def doubt(before: Any, after: Any, tolerance: Tolerance | None = None, dtype: str = "float32") -> dict[str, str]:
    first, second = np.array(before, dtype), np.array(after, dtype)
    spec = TensorSpec("y", dtype, first.shape)
    output = ExpectedOutput("score", spec, 0, "raw", tolerance or Tolerance())
    return find_unstable_cases(
        [output], {"case": {"y": first}, "other": {"y": first}}, {"case": {"y": second}}, "when it moves"
    )


@pytest.mark.parametrize(
    ("before", "after", "decided"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 2 + 3.9 * MOST_SENSITIVE], True),  # twice that share of the largest is what a library may be off
        ([1, 2], [1, 2 + 4.3 * MOST_SENSITIVE], False),
        ([1e-9], [9e-6], True),  # within the absolute tolerance
        ([NAN, 1], [NAN, 1], True),
        ([NAN, 1], [0, 1], False),
        ([0, 1], [NAN, 1], False),
        ([INF], [INF], True),
        ([INF], [-INF], False),
        ([INF], [1e30], False),
        ([1], [INF], False),
        ([], [], True),
    ],
)
def test_a_case_whose_answer_moves_further_than_is_allowed(before: Any, after: Any, decided: bool) -> None:
    assert (doubt(before, after) == {}) == decided


def test_whole_numbers_must_stay() -> None:
    assert doubt([2**53, 1], [2**53, 1], dtype="int64") == {}
    assert doubt([2**53], [2**53 + 1], Tolerance(9.0, 1.0), "int64") != {}
    assert doubt([True], [False], dtype="bool") != {}


def test_a_wide_tolerance_permits_what_a_narrow_one_does_not_forbid() -> None:
    assert doubt([1.0], [1.1], Tolerance(0.2, 0.0)) == {}
    assert doubt([1.0], [1.001], Tolerance(0.0, 0.0)) == {}


def test_the_reason_names_the_output_and_both_answers() -> None:
    assert doubt([0.25, NAN], [0.25, 0.5]) == {"case": "TensorFlow's own score goes from nan to 0.5 when it moves"}
    assert doubt([1.0, 2.0, 3.0], [1.5, 4.0, 3.0])["case"].endswith("goes from 2 to 4 when it moves")


def test_only_inputs_without_any_number_move_off_zero() -> None:
    calls = {
        "blank": {"sound": np.zeros((1, 50), np.float32), "mask": np.array([0, 1], np.float32), "id": np.zeros(3, int)},
        "pixels": {"sound": np.zeros((1, 50), np.uint8)},
        "nothing": {"sound": np.zeros((0, 50), np.float32)},
    }
    found = move_zeros(calls, {})
    assert list(found) == ["blank"]
    assert found["blank"]["mask"] is calls["blank"]["mask"]
    assert found["blank"]["id"] is calls["blank"]["id"]
    sound = found["blank"]["sound"]
    assert (sound.dtype, sound.shape) == (np.float32, (1, 50))
    assert set(np.unique(sound)) == {np.float32(-(2.0**-24)), np.float32(2.0**-23)}
    assert not calls["blank"]["sound"].any()


RAISES = "TensorFlow cannot run the graph on it: 'model/add': Incompatible shapes"
NO_NUMBER = "TensorFlow's own y goes from nan to 0.5 when it moves"
JUMPS = "TensorFlow's own y goes from 0 to 0.5 when it moves"


@pytest.mark.parametrize("most", [RAISES, NO_NUMBER, JUMPS])
def test_the_most_frequent_kind_of_reason_comes_first(most: str) -> None:
    reasons = [RAISES, NO_NUMBER, JUMPS, most]
    text = explain_too_few({str(i): why for i, why in enumerate(reasons)}, 1, [TensorSpec("x", "float32", (1, 128))])
    first, example, *rest = text.splitlines()
    assert "2 of 5" in first
    assert example.endswith(most.removeprefix("TensorFlow cannot run the graph on it: "))
    assert sum("1 of 5" in line for line in rest) == 2
    assert "x [1, 128]" in text
