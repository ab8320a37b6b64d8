"""The kernel of norms and softmax against float64 NumPy, with any sizes, gaps and halo, on one to three threads.

As test_fused_kernels.py has them: compiled for AVX2, with 16 and 4 lanes for the same CPU, and for AVX-512 where this
CPU has it. The same under sanitizers is a part of the run there.

What is normalised has a standard deviation of 1 at most. An error stays below 1e-6 of the number, and where the mean
is far larger than the deviation, below what a float32 of the mean's size leaves of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native.test_fused_kernels import TABLES
from tests.support.fused import Kernels
from tests.support.layers import examples
from tests.support.norm import Case, normalise

BOUND = 1e-6


@st.composite
def cases(draw: st.DrawFn) -> Case:
    side = st.integers(0, 2)
    return Case(
        (draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 200))),
        draw(st.booleans()),
        draw(st.sampled_from([1e-3, 1e-5, 1e-12])),
        (draw(st.sampled_from([0, 3, 16])), draw(st.sampled_from([0, 3, 16]))),
        draw(st.tuples(side, side, side, side)),
        draw(st.sampled_from([0.0, 0.0, 1.0, -100.0])),
        draw(st.sampled_from([1.0, 1.0, 0.01, 1000.0])),
        draw(st.integers(0, 1000)),
    )


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(case=cases())
def test_any_norm(kernels: Kernels, table: str, case: Case) -> None:
    ours, expected, x = normalise(kernels, case, table)
    # A mean is off by a few units in the last place of the largest number.
    lost = 6e-8 * (abs(case.mean) + 4 * case.spread) * 8
    bound = np.full(ours.shape, BOUND)
    if case.centred:
        bound += lost / np.sqrt(x.astype(np.float64).var(-1, keepdims=True) + case.epsilon)
    assert (np.abs(ours - expected) <= bound * (2 + np.abs(expected))).all()


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(case=cases())
def test_any_softmax(kernels: Kernels, table: str, case: Case) -> None:
    """A number's error is that of a power of e, and of what float32 leaves of its distance from the largest."""
    ours, expected, x = normalise(kernels, replace(case, softmax=True), table)
    far = np.minimum(x.max(-1, keepdims=True) - x, 88)
    assert (np.abs(ours - expected) <= expected * (1e-6 + 1.2e-7 * far) + 1e-37).all()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("channels", [5, 40, 200])
def test_a_softmax_of_special_values(kernels: Kernels, table: str, channels: int) -> None:
    special = [-np.inf, np.nan, np.inf]
    rows = np.zeros((1, 1, len(special) + 1, channels), np.float32)
    for row, value in enumerate(special):
        rows[0, 0, row, channels // 2] = value
    rows[0, 0, 3] = -np.inf
    ours, _, _ = normalise(kernels, Case(rows.shape, softmax=True), table, values=rows)
    left = np.where(np.arange(channels) == channels // 2, 0, 1 / (channels - 1))
    np.testing.assert_allclose(ours[0, 0, 0], left, rtol=1e-6, atol=1e-37)
    assert np.isnan(ours[0, 0, 1:3]).any(-1).all()
    assert np.isnan(ours[0, 0, 3]).all()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("shape", [(1, 1, 128, 256), (2, 14, 14, 384), (1, 1, 3, 1024)])
def test_the_same_for_any_number_of_threads(kernels: Kernels, table: str, shape: tuple[int, int, int, int]) -> None:
    case = Case(shape, gaps=(16, 0), mean=0.3)
    one, expected, _ = normalise(kernels, case, table)
    assert np.abs(one - expected).max() <= BOUND * (1 + np.abs(expected).max())
    for threads in (2, 3):
        np.testing.assert_array_equal(normalise(kernels, case, table, threads)[0], one)


@pytest.mark.parametrize("table", TABLES)
def test_what_is_all_the_same_leaves_beta(kernels: Kernels, table: str) -> None:
    ours, expected, _ = normalise(kernels, Case((1, 1, 4, 48), spread=0.0, mean=2.5), table)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)
    assert np.isfinite(ours).all()
