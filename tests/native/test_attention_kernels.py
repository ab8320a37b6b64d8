"""Attention's kernel against float64 NumPy: every form of mask, odd sizes, on one to three threads.

As test_fused_kernels.py has them: compiled for AVX2, with 16 and 4 lanes for the same CPU, and for AVX-512 where this
CPU has it. The same under sanitizers is a part of the run there.

An answer is a mean of values. Its error, relative to the same mean of their magnitudes, stays below 2e-6 for scores of
a few units, plus what one unit in the last place of the largest score does to its exponential.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native.test_fused_kernels import TABLES
from tests.support.attention import Case, attend
from tests.support.fused import Kernels
from tests.support.layers import examples

BOUND = 2e-6


def check(kernels: Kernels, case: Case, table: str) -> None:
    found = attend(kernels, case, table)
    bound = BOUND * max(1.0, case.spread)
    if case.mask == "added":  # Sums of scores and mask are rounded: of 1e4 to three decimal places, or of 8 to 16.
        bound += np.spacing(np.float32(8)) if case.type == "f32" else 1e-3
    error = np.abs(found.ours - found.expected)
    allowed = bound * (found.magnitude + 1e-2)
    assert (error <= allowed).all(), f"{(error / allowed).max():.2f} of what is allowed"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Lengths of 1 to 257, heads of 8 to 128 numbers and of others, 1 to 16 heads, 1 to 3 of a batch."""
    long = draw(st.booleans())
    mask = draw(st.sampled_from([None, None, "added", "chosen", "causal"]))
    size = draw(st.sampled_from([1, 3, 8, 16, 24, 32, 64, 80, 128]))
    return Case(
        (draw(st.integers(1, 3)), draw(st.integers(1, 4 if long else 16)), draw(st.integers(1, 2))),
        draw(st.integers(1, 257 if long else 40)),
        draw(st.integers(1, 300 if long else 40)),
        size,
        draw(st.sampled_from([size, size, 1, 7, 48])),
        mask,
        draw(st.sampled_from(["f32", "s32", "set", "u8"])),
        draw(st.booleans()),
        past=draw(st.integers(0, 5)),
        gap=draw(st.sampled_from([0, 0, 3, 16])),
        spread=draw(st.sampled_from([0.1, 1.0, 1.0, 10.0])),
        seed=draw(st.integers(0, 1000)),
    )


@pytest.mark.parametrize("table", TABLES)
@examples(50)
@given(case=cases())
def test_any_attention(kernels: Kernels, table: str, case: Case) -> None:
    check(kernels, case, table)


LARGE = {
    "minilm": Case((1, 4, 1), 256, 256, 32, 32, "added", "set"),
    "vit": Case((1, 2, 1), 197, 197, 64, 64),
    "keys of several blocks": Case((1, 2, 1), 33, 1100, 40, 40, spread=4.0),
    "causal, keys of several blocks": Case((2, 2, 1), 600, 600, 16, 24, "causal"),
    "a head of the largest size": Case((1, 1, 1), 20, 270, 256, 256),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", LARGE)
def test_attention_of_many_blocks(kernels: Kernels, name: str, table: str) -> None:
    check(kernels, LARGE[name], table)
    one = attend(kernels, LARGE[name], table).ours
    for threads in (2, 3):
        np.testing.assert_array_equal(attend(kernels, LARGE[name], table, threads).ours, one)


@pytest.mark.parametrize("table", TABLES)
def test_a_query_has_the_same_answer_in_every_block(kernels: Kernels, table: str) -> None:
    """To the last bit, whatever queries there are beside it."""
    case = Case((1, 1, 1), 70, 300, 24, 20, gap=8)
    every = attend(kernels, case, table).ours
    for queries in (1, 4, 8, 9, 16, 17, 40):
        few = attend(kernels, replace(case, queries=queries), table).ours
        np.testing.assert_array_equal(few, every[..., :queries, :])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("keys", [5, 700])
def test_a_query_that_sees_no_key(kernels: Kernels, table: str, keys: int) -> None:
    """Softmax of nothing but -infinity is 0 / 0; where PyTorch would give zeros, they are that."""
    case = Case((1, 2, 1), 9, keys, 16, 16, "causal", past=-1)
    ours = attend(kernels, case, table).ours
    assert np.isnan(ours[..., 0, :]).all()
    safe = attend(kernels, replace(case, safe=True), table).ours
    assert not safe[..., 0, :].any()
    np.testing.assert_array_equal(safe[..., 1:, :], ours[..., 1:, :])
    assert np.isfinite(ours[..., 1:, :]).all()


@pytest.mark.parametrize("table", TABLES)
def test_keys_that_come_after_many_masked_ones(kernels: Kernels, table: str) -> None:
    """Blocks of nothing but -infinity leave no trace, even where the scores are so small that their exponentials
    would be nothing beside that of 0."""
    check(kernels, Case((1, 2, 1), 12, 900, 16, 16, "chosen", hidden=600, fill=-np.inf, spread=30.0), table)


@pytest.mark.parametrize("table", TABLES)
def test_nan_reaches_the_answer(kernels: Kernels, table: str) -> None:
    assert np.isnan(attend(kernels, Case((1, 1, 1), 5, 40, 8, 8, spread=np.nan), table).ours).all()
