"""The rounding to bfloat16 that XLA's kernels call, against ml_dtypes' for every kind of float32."""

from __future__ import annotations

import ctypes
from pathlib import Path

import ml_dtypes
import numpy as np

from builder.base.project import RUNTIME
from tests.support.zig import shared_library


def test_every_float_rounds_to_the_nearest_bfloat16(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(shared_library(tmp_path / "b.so", RUNTIME / "platform" / "bfloat16.c")))
    round_one = library.__getattr__("__truncsfbf2")
    round_one.argtypes, round_one.restype = [ctypes.c_float], ctypes.c_float
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = np.concatenate([high | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    values = bits.view(np.float32)
    ours = np.array([round_one(value) for value in values], np.float32).view(np.uint32).astype(np.uint16)
    with np.errstate(invalid="ignore"):
        theirs = values.astype(ml_dtypes.bfloat16)
    nan = np.isnan(values)
    np.testing.assert_array_equal(ours[~nan], theirs[~nan].view(np.uint16))
    assert np.isnan(ours[nan].view(ml_dtypes.bfloat16)).all()
