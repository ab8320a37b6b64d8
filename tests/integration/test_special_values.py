"""Numbers that ops treat differently (NaN, infinities, zeros of both signs, what does not fit), compiled, against
TensorFlow's own kernels.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.base.tf import import_tensorflow
from tests.support.build import build_library, freeze_function, spec_of
from tests.support.run import run_library
from tests.support.zoo.special import ANSWERS, COLUMNS, ORDERS, ROWS, SPECIAL, special_answers

pytestmark = pytest.mark.integration

tf = import_tensorflow()

Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One library with an output for each of ANSWERS and ORDERS."""
    folder, here = tmp_path_factory.mktemp("special"), Path.cwd()
    feeds = (tf.TensorSpec((ROWS, COLUMNS), tf.float32, "x"), tf.TensorSpec((ROWS, COLUMNS), tf.int32, "n"))
    traced = tf.function(special_answers, autograph=False).get_concrete_function(*feeds)
    try:
        graph = freeze_function(traced, ["x", "n"], folder)
        return build_library(graph, spec_of("special"), folder).path
    finally:
        os.chdir(here)


def answers(library: Path, x: Array, n: Array) -> dict[str, Array]:
    return dict(zip((*ANSWERS, *ORDERS), run_library(library, [(x, n)])[0], strict=True))


def numbers(*special: float, everywhere: bool = False) -> Array:
    """Draw numbers and put ``special`` ones between them, in the first row, the last one and others, or everywhere."""
    drawn = np.random.default_rng(len(special)).normal(size=ROWS * COLUMNS).astype("f")
    for place, value in enumerate(special):
        drawn[:: 1 if everywhere else 5 + place] = value
    return drawn.reshape(ROWS, COLUMNS)


@pytest.mark.parametrize(
    "x",
    [
        numbers(),
        *(numbers(v) for v in SPECIAL),
        *(numbers(v, everywhere=True) for v in (np.nan, np.inf, -np.inf, -0.0)),
        numbers(np.nan, np.inf, -np.inf),
    ],
)
def test_special_numbers_answer_as_in_tensorflow(library: Path, x: Array) -> None:
    n = np.random.default_rng(1).integers(-(2**31), 2**31, x.shape).astype(np.int32)
    n[0] = (50_000, -(2**31), 2**31 - 1, 0, -1, 46_341)
    found = answers(library, x, n)
    for name, answer in ANSWERS.items():
        np.testing.assert_allclose(found[name], np.asarray(answer(x, n)), rtol=1e-5, atol=1e-6, err_msg=name)


TIES = st.sampled_from((0.0, -0.0, 1.0, -1.0, np.inf, -np.inf))
ROW = st.lists(TIES | st.just(np.nan), min_size=COLUMNS, max_size=COLUMNS)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(TIES, min_size=COLUMNS, max_size=COLUMNS), min_size=ROWS, max_size=ROWS))
def test_equal_numbers_stay_in_their_order_zeros_of_both_signs_among_them(
    library: Path, rows: list[list[float]]
) -> None:
    x = np.array(rows, "f")
    found = answers(library, x, np.zeros(x.shape, np.int32))
    for name, order in ORDERS.items():
        np.testing.assert_array_equal(found[name], np.asarray(order(x)), err_msg=name)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROW, min_size=ROWS, max_size=ROWS))
def test_numbers_beside_nan_are_in_order(library: Path, rows: list[list[float]]) -> None:
    """Where NaN comes is not said by TensorFlow: its own order depends on the places of the others."""
    x = np.array(rows, "f")
    found = answers(library, x, np.zeros(x.shape, np.int32))
    for name, direction in (("largest first", "DESCENDING"), ("least first", "ASCENDING")):
        for row, places in zip(x, found[name], strict=True):
            assert sorted(places) == list(range(COLUMNS))
            there = np.flatnonzero(~np.isnan(row))
            wanted = there[np.asarray(tf.argsort(row[there], direction=direction))]
            np.testing.assert_array_equal([place for place in places if place in there], wanted)
