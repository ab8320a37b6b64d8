"""The AVX-512 and VNNI copies of integer GEMM, run on Bochs as test_avx512.py runs the others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.integration.test_avx512 import emulated, here
from tests.native import test_integer_kernels as integer
from tests.support.bochs.emulated import Emulated, drawn
from tests.support.fused import Case, Kernels

__all__ = ["emulated", "here"]

pytestmark = pytest.mark.integration

CPUS = {"v4": "corei7_skylake_x", "vnni": "corei7_icelake_u"}


@pytest.fixture(params=CPUS)
def table(request: pytest.FixtureRequest, emulated: Emulated) -> str:
    """That of the copy to run, on a processor for it."""
    emulated.machine = replace(emulated.machine, cpu=CPUS[request.param])
    return str(request.param)


def test_vnni_runs_only_where_it_is_chosen(emulated: Emulated, tmp_path: Path) -> None:
    case = drawn(integer.layers(), 1)[0]
    for cpu, level in (("corei7_icelake_u", 2), ("corei7_skylake_x", 1)):
        emulated.machine = replace(emulated.machine, cpu=cpu)
        emulated.answer([lambda: integer.check(emulated.layer(case, "v3"))], tmp_path)
        assert emulated.level == level
    with pytest.raises(AssertionError, match="exception with no resolution"):
        emulated.answer([lambda: integer.check(emulated.layer(case, "vnni"))], tmp_path)


def test_any_layer_has_the_same_bits(emulated: Emulated, here: Kernels, table: str, tmp_path: Path) -> None:
    """As AVX2's, on this processor."""

    def same(case: Case) -> None:
        found, one = emulated.layer(case, table), here.layer(case, "v3")
        integer.check(found)
        np.testing.assert_array_equal(found.output.buffer, one.output.buffer)
        if found.second is not None and one.second is not None:
            np.testing.assert_array_equal(found.second.buffer, one.second.buffer)

    emulated.answer([partial(same, case) for case in drawn(integer.layers(), 300)], tmp_path)


def test_layers_of_many_blocks(emulated: Emulated, table: str, tmp_path: Path) -> None:
    emulated.answer(
        [lambda c=case: integer.check(emulated.layer(c, table)) for case in integer.LARGE.values()], tmp_path
    )


def test_sums_and_rounding_at_their_limits(emulated: Emulated, table: str, tmp_path: Path) -> None:
    largest = [partial(integer.test_the_largest_sums_there_are, emulated, table, zero) for zero in (0, 3, 255)]
    rounding = [partial(integer.test_rounding, emulated, table, zero) for zero in (0, 100, 255)]
    emulated.answer([*largest, *rounding], tmp_path)
