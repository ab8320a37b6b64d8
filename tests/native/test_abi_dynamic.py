"""Fetches whose size the data decides, on a small library: what is there, zeros behind it, and more than is taken."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from tests.support.dynamic_model import SPEC, X, build, program

CF_OK, CF_ERR_SIZE = 0, 6
POISON = 0xA5


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("dynamic")
    loaded = ctypes.CDLL(str(build(folder)))
    loaded.cf_last_error.restype = loaded.cf_describe.restype = ctypes.c_char_p
    return loaded


class Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def run(library: Any, model: Any, rows: tuple[int, int], flags: tuple[int, int]) -> tuple[int, list[np.ndarray]]:
    """The status and the fetches, which were poisoned before."""
    feeds = [X, np.ones(4, np.bool_), np.array(rows, np.int32), np.array(flags, np.int32)]
    fetches = [np.full(size, POISON, np.uint8) for size in (12, 8, 4, 8)]
    slots = [(Port * len(a))(*[Port(one.ctypes.data, one.nbytes) for one in a]) for a in (feeds, fetches)]
    return library.cf_run(model, slots[0], ctypes.c_size_t(4), slots[1], ctypes.c_size_t(4)), fetches


@pytest.fixture
def model(library: Any) -> Any:
    opened = ctypes.c_void_p()
    assert library.cf_open(1, ctypes.byref(opened)) == CF_OK
    yield opened
    library.cf_close(opened)


@pytest.mark.parametrize(
    ("rows", "flags"), [((0, 2), (0, 0)), ((2, 2), (1, 2)), ((1, 2), (2, 1)), ((3, 2), (2, 2)), ((3, 2), (0, 2))]
)
def test_what_is_there_and_zeros_behind_it(
    library: Any, model: Any, rows: tuple[int, int], flags: tuple[int, int]
) -> None:
    status, (data, shape, bits, bits_shape) = run(library, model, rows, flags)
    assert status == CF_OK
    assert (tuple(shape.view(np.int32)), tuple(bits_shape.view(np.int32))) == (rows, flags)
    there = rows[0] * rows[1]
    assert data.view(np.int16).tolist() == [*range(1, there + 1), *[0] * (6 - there)]
    there = flags[0] * flags[1]
    assert bits.tolist() == [1] * there + [0] * (4 - there)


@pytest.mark.parametrize(
    ("rows", "flags", "says"),
    [
        ((4, 2), (0, 0), "fetch rows has the shape [4, 2] here; at most [3, 2] is taken"),
        ((2, 3), (0, 0), "fetch rows has the shape [2, 3] here; at most [3, 2] is taken"),
        ((-1, 2), (0, 0), "fetch rows has the shape [-1, 2] here; at most [3, 2] is taken"),
        ((3, 2), (1, 4), "fetch flags has the shape [1, 4] here; at most [2, 2] is taken"),
    ],
)
def test_more_than_is_taken_is_an_error_with_the_fetch_s_name(
    library: Any, model: Any, rows: tuple[int, int], flags: tuple[int, int], says: str
) -> None:
    status, fetches = run(library, model, rows, flags)
    assert (status, library.cf_last_error(model).decode()) == (CF_ERR_SIZE, says)
    assert all((fetch == POISON).all() for fetch in fetches)
    state = (ctypes.c_uint8 * 4)()
    assert library.cf_get_state(model, state, ctypes.c_size_t(4)) == CF_OK
    assert bytes(state) == bytes(4)  # as it was
    assert run(library, model, (1, 2), (1, 1))[0] == CF_OK
    assert library.cf_last_error(model) == b""


def test_the_description_says_where_the_shape_is(library: Any) -> None:
    described = json.loads(library.cf_describe())
    assert described["fetches"][0] == {
        "name": "rows", "dtype": "int16", "shape": [3, 2], "bytes": 12, "dynamic": [0], "shape_fetch": "rows_shape",
    }  # fmt: skip
    assert [fetch.get("shape_fetch") for fetch in described["fetches"]] == ["rows_shape", None, "flags_shape", None]
    assert [output["name"] for output in described["outputs"]] == ["rows", "flags"]


def test_the_header_says_so_too(tmp_path: Path) -> None:
    header = emit_sources(program(), SPEC, X86_64, tmp_path).header.read_text()
    assert "#define CF_FETCH_ROWS_SIZE 12u /* int16 [3, 2] at most; rows_shape says how much */" in header
    assert "int32_t *fetch_rows_shape, size_t fetch_rows_shape_size" in header
