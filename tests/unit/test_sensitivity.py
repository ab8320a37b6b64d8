"""How far an answer moves when weights and inputs move by one ulp: what verification allows rests on these numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from builder.verify.sensitivity import FLOATS, measure_joint_sensitivity, measure_sensitivity, nudge_calls, nudge_values

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
    first, again = nudge_calls(calls), nudge_calls(calls)
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
    assert measure_joint_sensitivity(answers, moved) == pytest.approx({"y": 0.01}, rel=1e-4)
