"""Kernels over pictures of bytes besides layers, against NumPy: sums in fixed point, and copies of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.compiler.lower.steps.quantisation import Quantisation
from tests.support.fused import BYTES_LESS, Bytes, Kernels
from tests.support.layers import examples, halos

TABLES = ["v3", "wide", "narrow"]
SIGNED, UNSIGNED, CENTRED, STORED = 1, 2, 3, 4
"""Forms of a cf_repack."""

shapes = st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 9), st.integers(1, 40))


def picture(values: Any, table: str, halo: Any = (0, 0, 0, 0), zero: int = 0, gap: int = 0) -> Bytes:
    """Bytes 0 to 255 as they are stored, with ``zero`` in a halo and room for another pixel around it."""
    room: Any = tuple(side + 1 for side in halo)
    return Bytes(values.shape, room, gap).filled(
        values.astype(np.float32) - zero, Quantisation(1.0, zero), BYTES_LESS.get(table, 0), halo
    )


@pytest.mark.parametrize("table", TABLES)
@examples(80)
@given(shape=shapes, halo=halos, threads=st.integers(1, 3), seed=st.integers(0, 2**31), gap=st.sampled_from([0, 4, 7]))
def test_sums_in_fixed_point(
    kernels: Kernels, table: str, shape: Any, halo: Any, threads: int, seed: int, gap: int
) -> None:
    """Also where int32 wraps around."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(0, 256, shape) for _ in range(2))
    most = 1 << random.integers(1, 31)
    factors = random.integers(-most, most, 2)
    start, shift = (
        int(random.integers(-(2**31), 2**31)) // 2 ** int(random.integers(0, 20)),
        int(random.integers(0, 32)),
    )
    zero, low, high = int(random.integers(0, 256)), *sorted(map(int, random.integers(0, 256, 2)))
    wide = (a * factors[0] + b * factors[1] + start).astype(np.int32) >> shift
    expected = np.clip((wide.astype(np.int64) + zero).astype(np.int32), low, high)
    to = Bytes(shape, tuple(side + 1 for side in halo), gap)  # type: ignore[arg-type]
    sources = [picture(values, table, gap=random.integers(0, 2) * 4) for values in (a, b)]
    kernels.add([*sources, to], [factors, start, shift, zero, low, high], halo, table, threads)
    np.testing.assert_array_equal(to.buffer, picture(expected, table, halo, zero, gap).buffer)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("form", [SIGNED, UNSIGNED, CENTRED])
@examples(60)
@given(shape=shapes, halo=halos, zero=st.integers(0, 255), seed=st.integers(0, 2**31))
def test_tensors_as_bytes_and_back(
    kernels: Kernels, table: str, form: int, shape: Any, halo: Any, zero: int, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, 256, shape)
    gap = -shape[3] % 4
    tensor = {
        SIGNED: (values - 128).astype(np.int8), UNSIGNED: values.astype(np.uint8), CENTRED: (values - zero).astype("i4")
    }[form]  # fmt: skip
    to = Bytes(shape, tuple(side + 1 for side in halo), gap)  # type: ignore[arg-type]
    kernels.repack_bytes(tensor, to, form, zero, halo, table)
    np.testing.assert_array_equal(to.whole, picture(values, table, halo, zero, gap).whole)
    if form != CENTRED:
        back = np.zeros_like(tensor)
        kernels.unpack_bytes(to, back, form, table)
        np.testing.assert_array_equal(back, tensor)


@pytest.mark.parametrize("table", TABLES)
@examples(60)
@given(shape=shapes, halo=halos, zero=st.integers(0, 255), gap=st.integers(0, 5))
def test_bytes_as_channels_of_an_image(
    kernels: Kernels, table: str, shape: Any, halo: Any, zero: int, gap: int
) -> None:
    """Other channels are in the gap, and stay as they are."""
    values = np.random.default_rng(0).integers(0, 256, shape)
    stored = (values - BYTES_LESS.get(table, 0)).astype(np.uint8)
    to = Bytes(shape, tuple(side + 1 for side in halo), gap)  # type: ignore[arg-type]
    kernels.repack_bytes(stored, to, STORED, zero, halo, table)
    np.testing.assert_array_equal(to.buffer, picture(values, table, halo, zero, gap).buffer)
