"""Indices over memory in other parts: what views of views come to."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.compiler.lower.strided import find_common_index, merge_parts, regroup_index


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.randoms())
def test_regrouped_parts_name_the_same_elements(sizes: list[int], random: object) -> None:
    """As NumPy's reshape of a transposed array has them."""
    memory = np.arange(math.prod(sizes)).reshape(sizes)
    axes = list(range(len(sizes)))
    random.shuffle(axes)  # type: ignore[attr-defined]
    view = memory.transpose(axes)
    parts = [(n, s // memory.itemsize) for n, s in zip(view.shape, view.strides, strict=True)]
    groups = regroup_index(parts, [math.prod(view.shape[:2]), math.prod(view.shape[2:])])
    assert groups is not None
    flat = [part for group in groups for part in group]
    found = np.zeros(1, int)
    for size, stride in flat:
        found = (found[:, None] + stride * np.arange(size)).reshape(-1)
    np.testing.assert_array_equal(found, view.reshape(-1))


@pytest.mark.parametrize(("parts", "sizes"), [([(6, 1)], [4, 2]), ([(4, 5), (3, 1)], [6, 2]), ([(2, 3)], [2, 2])])
def test_a_part_is_not_cut_at_an_odd_place(parts: list[tuple[int, int]], sizes: list[int]) -> None:
    assert regroup_index(parts, sizes) is None


def test_parts_that_follow_one_another_are_one() -> None:
    assert merge_parts([(2, 12), (3, 4), (4, 1)]) == ((24, 1),)
    assert merge_parts([(2, 12), (1, 7), (3, 5)]) == ((2, 12), (3, 5))
    assert merge_parts([(2, 0), (3, 0)]) == ((6, 0),)


def test_one_index_over_several_memories() -> None:
    batch_and_heads = [(2, 100), (4, 8)]
    mask = [(2, 24), (4, 0)]
    assert find_common_index([batch_and_heads, mask]) == ((2, 4), [(100, 8), (24, 0)])
    shared = [(2, 50), (2, 16), (2, 0)]
    assert find_common_index([batch_and_heads, shared]) == ((2, 2, 2), [(100, 16, 8), (50, 16, 0)])
    assert find_common_index([[(6, 1)], [(4, 1), (3, 0)]]) is None
    assert find_common_index([[(12, 1)], [(12, 0)]]) == ((12,), [(1,), (0,)])
