"""The kernel of LSTM and GRU against float64 NumPy, with any sizes, on one to three threads.

As test_fused_kernels.py has them: compiled for AVX2, with 16 and 4 lanes for the same CPU, and for AVX-512 where this
CPU has it. The same under sanitizers is a part of the run there.

Where the state is rounded to bytes, each step is compared by itself, since a state between two bytes may go to either:
float64 begins it with the kernel's own state. That is done in every form that integer sums have; see
test_integer_kernels.py.

A state lies between -1 and 1. The error of one step, of a sum's rounding for the most part, is passed on by the next:
it stays below 1e-6 for each step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native.test_fused_kernels import TABLES
from tests.native.test_integer_kernels import TABLES as INTEGER_TABLES
from tests.support.fused import Kernels
from tests.support.layers import examples
from tests.support.recurrent import Case, Result, prepare, recur, run

BOUND = 1e-6


def check(ours: Result, expected: Result, case: Case) -> None:
    bound = BOUND * (case.steps + 2)
    for name in ("hidden", "output"):
        if getattr(expected, name) is not None:
            np.testing.assert_allclose(getattr(ours, name), getattr(expected, name), rtol=0, atol=bound)
    if expected.cell is not None:
        np.testing.assert_allclose(ours.cell, expected.cell, rtol=bound, atol=bound)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    by_units = draw(st.booleans())
    return Case(
        draw(st.sampled_from(["lstm", "gru"])),
        draw(st.integers(1, 7)),
        1 if by_units else draw(st.integers(1, 9)),
        draw(st.integers(4, 90)),
        draw(st.booleans()),
        draw(st.sampled_from(["all", "last", "none"])),
        by_units,
        draw(st.integers(0, 1000)),
    )


@pytest.mark.parametrize("table", TABLES)
@examples(50)
@given(case=cases())
def test_any_recurrent_layer(kernels: Kernels, table: str, case: Case) -> None:
    check(*recur(kernels, case, table), case)


@st.composite
def rounded_cases(draw: st.DrawFn) -> Case:
    return replace(draw(cases()), by_units=False, output="all", batch=draw(st.integers(1, 9)), rounded=True)


@pytest.mark.parametrize("table", INTEGER_TABLES)
@examples(15)
@given(case=rounded_cases(), threads=st.integers(1, 3))
def test_any_recurrent_layer_of_bytes(kernels: Kernels, table: str, case: Case, threads: int) -> None:
    check(*recur(kernels, case, table, threads), case)


@pytest.mark.parametrize("table", INTEGER_TABLES)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("batch", [1, 16])
def test_bytes_are_the_same_for_any_number_of_threads(kernels: Kernels, kind: Any, batch: int, table: str) -> None:
    case = Case(kind, 4, batch, 201, rounded=True)
    one, expected = recur(kernels, case, table)
    check(one, expected, case)
    for threads in (2, 3):
        np.testing.assert_array_equal(recur(kernels, case, table, threads)[0].output, one.output)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_the_last_state_of_bytes_alone(kernels: Kernels, kind: Any) -> None:
    every, last, none = (
        run(kernels, prepare(Case(kind, 20, 5, 70, output=output, rounded=True)), "v3")
        for output in ("all", "last", "none")
    )
    np.testing.assert_array_equal(last.output[0], every.output[-1])
    np.testing.assert_array_equal(none.hidden, every.hidden)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("batch", "by_units"), [(1, False), (1, True), (16, False)])
def test_the_same_for_any_number_of_threads(
    kernels: Kernels, kind: Any, batch: int, by_units: bool, table: str
) -> None:
    case = Case(kind, 4, batch, 200, by_units=by_units)
    one, expected = recur(kernels, case, table)
    check(one, expected, case)
    for threads in (2, 3):
        np.testing.assert_array_equal(recur(kernels, case, table, threads)[0].output, one.output)
