"""The ABI's calls on a small library: state, what a wrong call is told, and steps that share out their work."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.emit import emit
from builder.lower.program import (
    BoundPort,
    BoundState,
    BroadcastStep,
    Buffer,
    CopyStep,
    DotStep,
    KernelStep,
    Program,
    Weight,
)
from builder.spec import ModelSpec, Source
from builder.spec.tensor import TensorSpec
from builder.targets import X86_64
from tests.support.instrumented import link

SPEC = ModelSpec(Path("model.toml"), "abi", "1", Source("graph_def", Path("g.pb")))
CF_OK, CF_ERR_ARGUMENT, CF_ERR_KERNEL = 0, 3, 4
FIRST, POISON = 7, 13

KERNEL = f"""
#include <stdint.h>
typedef struct {{ void *data; uint64_t size; }} argument;
typedef struct {{ const void *groups, *group; uint64_t count; const argument *arguments; }} frame;
void *fail_at_poison(const frame *f);
void *fail_at_poison(const frame *f) {{
    return *(int32_t *)f->arguments[0].data == {POISON} ? f->arguments[0].data : 0;
}}
"""

BATCH, SIDE = 8, 33
MATRICES, TABLE = 4 * BATCH * SIDE * SIDE, (2, 3, 40, 50)
ROWS = 4 * int(np.prod(TABLE))


class Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def program() -> Program:
    """The state is the ``x`` of the run before; beside it a product of matrices and a sum along rows."""
    sizes = {"x": 4, "read": 4, "write": 4, "before": 4, "a": MATRICES, "b": MATRICES, "product": MATRICES}
    sizes |= {"table": ROWS, "bias": 200, "sum": ROWS}
    at, places = 0, {}
    for name, size in sizes.items():
        places[name] = Buffer("arena", at, size)
        at += (size + 63) // 64 * 64
    scalar, strides = ((1,), (1,), (1,)), (SIDE * SIDE, SIDE, 1)
    steps = (
        CopyStep("before", places["read"], places["before"], 4, *scalar),
        CopyStep("write", places["x"], places["write"], 4, *scalar),
        DotStep(
            "product", "float32", places["a"], places["b"], places["product"], BATCH, SIDE, SIDE, SIDE, strides,
            strides, strides,
        ),
        BroadcastStep(
            "sum", "add", places["table"], places["bias"], places["sum"], TABLE, (6000, 2000, 50, 1), (0, 0, 0, 1),
            (6000, 2000, 50, 1),
        ),
        KernelStep("check", "fail_at_poison", (places["x"],), (1, 1, 1)),
    )  # fmt: skip

    def bound(name: str, dtype: str, *shape: int) -> BoundPort:
        return BoundPort(TensorSpec(name, dtype, shape), places[name])

    kept = BoundState(TensorSpec("kept", "int32", (1,)), 0, places["read"], places["write"], Buffer("weights", 0, 4))
    cube = (BATCH, SIDE, SIDE)
    return Program(
        steps=steps,
        feeds=(
            bound("x", "int32", 1), bound("a", "float32", *cube), bound("b", "float32", *cube),
            bound("table", "float32", *TABLE), bound("bias", "float32", 50),
        ),
        fetches=(bound("before", "int32", 1), bound("product", "float32", *cube), bound("sum", "float32", *TABLE)),
        weights=(Weight(0, np.int32(FIRST).tobytes()),),
        arena_size=at,
        weights_size=64,
        states=(kept,),
    )  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("abi")
    (folder / "kernel.c").write_text(KERNEL)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-O1", "-c", "kernel.c"]
    subprocess.run(command, cwd=folder, check=True)
    loaded = ctypes.CDLL(str(link(emit(program(), SPEC, X86_64, folder), [folder / "kernel.o"], folder)))
    loaded.cf_last_error.restype = ctypes.c_char_p
    return loaded


@pytest.fixture(params=[1, 3])
def model(library: Any, request: pytest.FixtureRequest) -> Iterator[ctypes.c_void_p]:
    opened = ctypes.c_void_p()
    assert library.cf_open(request.param, ctypes.byref(opened)) == CF_OK
    yield opened
    library.cf_close(opened)


def inputs(x: int) -> list[np.ndarray]:
    random = np.random.default_rng(x)
    cubes = [random.standard_normal((BATCH, SIDE, SIDE)).astype(np.float32) for _ in range(2)]
    return [np.array([x], np.int32), *cubes, *(random.standard_normal(s).astype(np.float32) for s in (TABLE, 50))]


def run(library: Any, model: ctypes.c_void_p, feeds: list[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """The status and the fetches."""
    fetches = [np.zeros(1, np.int32), np.zeros((BATCH, SIDE, SIDE), np.float32), np.zeros(TABLE, np.float32)]
    ports = [(Port * len(arrays))(*((a.ctypes.data, a.nbytes) for a in arrays)) for arrays in (feeds, fetches)]
    counts = [ctypes.c_size_t(len(arrays)) for arrays in (feeds, fetches)]
    return library.cf_run(model, ports[0], counts[0], ports[1], counts[1]), fetches


def before(library: Any, model: ctypes.c_void_p, x: int) -> int:
    status, fetches = run(library, model, inputs(x))
    assert status == CF_OK
    return int(fetches[0][0])


def kept(library: Any, model: ctypes.c_void_p) -> int:
    value = ctypes.c_int32()
    assert library.cf_get_state(model, ctypes.byref(value), ctypes.c_size_t(4)) == CF_OK
    return value.value


def test_large_steps_are_shared_out_and_right(library: Any, model: ctypes.c_void_p) -> None:
    feeds = inputs(1)
    status, (_, product, total) = run(library, model, feeds)
    assert status == CF_OK
    np.testing.assert_allclose(product, feeds[1].astype(np.float64) @ feeds[2].astype(np.float64), atol=1e-4)
    np.testing.assert_array_equal(total, feeds[3] + feeds[4])


def test_state_lasts_and_can_be_read_set_and_reset(library: Any, model: ctypes.c_void_p) -> None:
    assert [before(library, model, x) for x in (5, 6)] == [FIRST, 5]
    assert kept(library, model) == 6
    assert library.cf_set_state(model, ctypes.byref(ctypes.c_int32(9)), ctypes.c_size_t(4)) == CF_OK
    assert before(library, model, 1) == 9
    assert library.cf_reset(model) == CF_OK
    assert before(library, model, 1) == FIRST


def test_a_failed_run_leaves_the_state_as_it_was(library: Any, model: ctypes.c_void_p) -> None:
    before(library, model, 5)
    status, _ = run(library, model, inputs(POISON))
    assert (status, library.cf_last_error(model)) == (CF_ERR_KERNEL, b"a compiled kernel reported an error")
    assert kept(library, model) == 5
    assert before(library, model, 1) == 5


def test_state_of_another_size_is_refused(library: Any, model: ctypes.c_void_p) -> None:
    buffer = ctypes.create_string_buffer(8)
    for call in (library.cf_get_state, library.cf_set_state):
        for data, size, has in ((buffer, 3, 3), (buffer, 8, 8), (None, 4, 0)):
            assert call(model, data, ctypes.c_size_t(size)) == CF_ERR_ARGUMENT
            assert library.cf_last_error(model) == b"the state has 4 bytes, not %d" % has
        assert call(None, buffer, ctypes.c_size_t(4)) == CF_ERR_ARGUMENT
    assert library.cf_reset(None) == CF_ERR_ARGUMENT
    assert buffer.raw == bytes(8)
    assert kept(library, model) == FIRST


def test_a_port_that_is_null_is_named(library: Any, model: ctypes.c_void_p) -> None:
    feeds = inputs(1)
    ports = (Port * 5)(*((a.ctypes.data, a.nbytes) for a in feeds))
    ports[2].data = None
    fetches = (Port * 3)(*((0, size) for size in (4, MATRICES, ROWS)))
    arguments = (ports, ctypes.c_size_t(5), fetches, ctypes.c_size_t(3))
    assert library.cf_run(model, *arguments) == CF_ERR_ARGUMENT
    assert library.cf_last_error(model) == b"feed b is NULL"
    ports[2].data = feeds[2].ctypes.data
    assert library.cf_run(model, *arguments) == CF_ERR_ARGUMENT
    assert library.cf_last_error(model) == b"fetch before is NULL"
