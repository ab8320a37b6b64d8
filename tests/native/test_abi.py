"""The ABI's calls on small libraries: state, what a wrong call is told, and steps that share out their work."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder.base.targets import X86_64
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, BoundState, Program, Weight
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.copy_step import BroadcastStep, CopyStep
from builder.compiler.lower.steps.dot_step import DotStep
from builder.compiler.lower.steps.kernel_step import KernelStep, RngStep
from builder.config import ModelSpec, SignatureSpec, Source
from builder.config.tensor import TensorSpec
from tests.support.instrumented import link

SPEC = ModelSpec(Path("model.toml"), "abi", "1", Source("graph_def", Path("g.pb")))
CF_OK, CF_ERR_ARGUMENT, CF_ERR_KERNEL, CF_ERR_BUSY = 0, 3, 4, 8
FIRST, AFTER, POISON = 7, 11, 13
WAIT = 1000
"""And more: a kernel waits for a byte from the descriptor that is so much less."""
STATE = 8

KERNEL = f"""
#include <stdint.h>
typedef struct {{ void *data; uint64_t size; }} argument;
typedef struct {{ const void *groups, *group; uint64_t count; const argument *arguments; }} frame;
long read(int file, void *data, unsigned long size);
void *fail_at_poison(const frame *f);
void *fail_at_poison(const frame *f) {{
    char byte;
    const int32_t x = *(int32_t *)f->arguments[0].data;
    if (x >= {WAIT} && read(x - {WAIT}, &byte, 1) != 1) return f->arguments[0].data;
    return *(int32_t *)f->arguments[0].data == {POISON} ? f->arguments[0].data : 0;
}}
"""

BATCH, SIDE = 8, 33
MANY = 2 * 65535 + 1
"""Matrices of one number: three to a piece, and the last piece is not full."""

SEED, DELTA = 0x7012395, 2**64 - 0x7012395
"""XLA's seed, and a step after which the generator's lower word is 0."""

CUBE, TABLE, MANY_CUBE = (BATCH, SIDE, SIDE), (2, 3, 40, 50), (MANY, 1, 1)
FEEDS = {
    "x": ("int32", (1,)), "a": ("float32", CUBE), "b": ("float32", CUBE), "table": ("float32", TABLE),
    "bias": ("float32", (50,)), "many": ("float32", MANY_CUBE), "factors": ("float32", MANY_CUBE),
    "empty": ("float32", (0,)),
}  # fmt: skip
FETCHES = {
    "before": ("int32", (1,)), "product": ("float32", CUBE), "sum": ("float32", TABLE), "few": ("float32", (3, 3)),
    "little": ("float32", (2, 50)), "multiplied": ("float32", MANY_CUBE), "fixed": ("int32", (1,)),
    "random": ("int64", (2,)), "nothing": ("float32", (0,)),
}  # fmt: skip


class Port(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


def program() -> Program:
    """The state is the ``x`` of the run before, and ``fixed``, which every run sets to the same. Beside it products of
    matrices and sums along rows, large and small, and the random generator."""
    specs = {name: TensorSpec(name, *of) for name, of in (FEEDS | FETCHES).items()}
    at, places = 0, {}
    for name, size in (*((name, spec.size) for name, spec in specs.items()), ("read", 4), ("write", 4)):
        places[name] = Buffer("arena", at, size)
        at += (size + 63) // 64 * 64
    scalar, cube, few = ((1,), (1,), (1,)), (SIDE * SIDE, SIDE, 1), (9, 3, 1)

    def dot(out: str, lhs: str, rhs: str, sizes: tuple[int, int, int, int], strides: tuple[int, int, int]) -> DotStep:
        of = (places[lhs], places[rhs], places[out])
        return DotStep(out, "float32", *of, *sizes, strides, strides, strides)

    def add(out: str, dims: tuple[int, ...], strides: tuple[int, ...]) -> BroadcastStep:
        of = (places["table"], places["bias"], places[out])
        return BroadcastStep(out, "add", of[0], of[1], of[2], dims, strides, (0, 0, 0, 1), strides)

    steps = (
        RngStep("random", places["random"], DELTA),
        CopyStep("before", places["read"], places["before"], 4, *scalar),
        CopyStep("write", places["x"], places["write"], 4, *scalar),
        dot("product", "a", "b", (BATCH, SIDE, SIDE, SIDE), cube),
        dot("few", "a", "b", (1, 3, 3, 3), few),
        dot("multiplied", "many", "factors", (MANY, 1, 1, 1), (1, 1, 1)),
        add("sum", TABLE, (6000, 2000, 50, 1)),
        add("little", (1, 1, 2, 50), (100, 100, 50, 1)),
        KernelStep("check", "fail_at_poison", (places["x"],), (), (1, 1, 1)),
    )
    first, after = Buffer("weights", 0, 4), Buffer("weights", 64, 4)
    return Program(
        steps=steps,
        feeds=tuple(BoundPort(specs[name], places[name]) for name in FEEDS),
        fetches=tuple(BoundPort(specs[name], places[name]) for name in FETCHES),
        weights=(Weight(0, np.int32(FIRST).tobytes()), Weight(64, np.int32(AFTER).tobytes())),
        arena_size=at,
        weights_size=128,
        states=(
            BoundState(TensorSpec("kept", "int32", (1,)), 0, places["read"], places["write"], first),
            BoundState(TensorSpec("fixed", "int32", (1,)), 4, places["fixed"], after, first),
        ),
    )


def load(path: Path) -> Any:
    loaded = ctypes.CDLL(str(path))
    loaded.cf_last_error.restype = ctypes.c_char_p
    return loaded


def build(of: Program, folder: Path) -> Path:
    """The library of a program."""
    (folder / "kernel.c").write_text(KERNEL)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-O1", "-c", "kernel.c"]
    subprocess.run(command, cwd=folder, check=True)
    return link(emit_sources(of, SPEC, X86_64, folder), [folder / "kernel.o"], folder)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(build(program(), tmp_path_factory.mktemp("abi")))


OPENING = """
import ctypes, resource, sys
library, opened = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
assert library.cf_open(1, ctypes.byref(opened)) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_that_every_run_touches_is_there_once_a_model_is_open(tmp_path: Path) -> None:
    """Otherwise its faults are the first caller's. The rest is left: it may be for threads that are not there."""
    faults = {}
    for pages in (0, 100):
        folder = tmp_path / str(pages)
        folder.mkdir()
        library = build(replace(program(), arena_size=200 * 4096, arena_touched=pages * 4096), folder)
        command = [sys.executable, "-c", OPENING, str(library)]
        own = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # memory that nothing has touched before
        faults[pages] = int(subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout)
    assert 95 <= faults[100] - faults[0] <= 120  # with the pages of a sanitizer's shadow


@pytest.fixture(params=[1, 3])
def model(library: Any, request: pytest.FixtureRequest) -> Iterator[ctypes.c_void_p]:
    opened = ctypes.c_void_p()
    assert library.cf_open(request.param, ctypes.byref(opened)) == CF_OK
    yield opened
    library.cf_close(opened)


def inputs(x: int) -> list[np.ndarray]:
    random, (_, *others) = np.random.default_rng(x), FEEDS.values()
    return [np.array([x], np.int32), *(random.standard_normal(shape).astype(dtype) for dtype, shape in others)]


def ports(arrays: list[np.ndarray]) -> Any:
    return (Port * len(arrays))(*[Port(a.ctypes.data, a.nbytes) for a in arrays])


def outputs() -> list[np.ndarray]:
    return [np.zeros(shape, dtype) for dtype, shape in FETCHES.values()]


def run(library: Any, model: ctypes.c_void_p, feeds: list[np.ndarray]) -> tuple[int, dict[str, np.ndarray]]:
    """The status and the fetches."""
    fetches = outputs()
    status = call(library, model, ports(feeds), len(feeds), ports(fetches), len(fetches))
    return status, dict(zip(FETCHES, fetches, strict=True))


def call(library: Any, model: ctypes.c_void_p | None, feeds: Any, count: int, fetches: Any, fetch_count: int) -> int:
    return int(library.cf_run(model, feeds, ctypes.c_size_t(count), fetches, ctypes.c_size_t(fetch_count)))


def before(library: Any, model: ctypes.c_void_p, x: int) -> int:
    status, fetches = run(library, model, inputs(x))
    assert status == CF_OK
    return int(fetches["before"][0])


def kept(library: Any, model: ctypes.c_void_p) -> tuple[int, int]:
    value = (ctypes.c_int32 * 2)()
    assert library.cf_get_state(model, value, ctypes.c_size_t(STATE)) == CF_OK
    return value[0], value[1]


def test_large_steps_are_shared_out_and_right(library: Any, model: ctypes.c_void_p) -> None:
    feeds = inputs(1)
    status, found = run(library, model, feeds)
    assert status == CF_OK
    a, b = (cube.astype(np.float64) for cube in feeds[1:3])
    np.testing.assert_allclose(found["product"], a @ b, atol=1e-4)
    np.testing.assert_array_equal(found["sum"], feeds[3] + feeds[4])
    np.testing.assert_array_equal(found["multiplied"], feeds[5] * feeds[6])


def test_small_steps_are_right(library: Any, model: ctypes.c_void_p) -> None:
    feeds = inputs(2)
    status, found = run(library, model, feeds)
    assert status == CF_OK
    a, b = (cube.ravel()[:9].reshape(3, 3).astype(np.float64) for cube in feeds[1:3])
    np.testing.assert_allclose(found["few"], a @ b, atol=1e-5)
    np.testing.assert_array_equal(found["little"], feeds[3][0, 0, :2] + feeds[4])


def test_state_lasts_and_can_be_read_set_and_reset(library: Any, model: ctypes.c_void_p) -> None:
    assert kept(library, model) == (FIRST, FIRST)
    assert [before(library, model, x) for x in (5, 6)] == [FIRST, 5]
    assert kept(library, model) == (6, AFTER)
    assert library.cf_set_state(model, (ctypes.c_int32 * 2)(9, 3), ctypes.c_size_t(STATE)) == CF_OK
    assert kept(library, model) == (9, 3)
    assert before(library, model, 1) == 9
    assert library.cf_reset(model) == CF_OK
    assert before(library, model, 1) == FIRST


def test_a_variable_that_every_run_sets_to_the_same(library: Any, model: ctypes.c_void_p) -> None:
    """Its new value lies in the weights, not where the run works."""
    assert [int(run(library, model, inputs(1))[1]["fixed"][0]) for _ in range(3)] == [FIRST, AFTER, AFTER]


def words_of(fetches: dict[str, np.ndarray]) -> tuple[int, int]:
    """The random generator's, the lower one first."""
    low, high = map(int, fetches["random"].view(np.uint64))
    return low, high


def test_the_random_generator_counts_with_128_bits(library: Any, model: ctypes.c_void_p) -> None:
    """Each run sees where the one before left it: at 0 after a carry, later with and without one."""
    expected = [SEED + n * DELTA for n in range(4)]
    words = [(n % 2**64, n // 2**64) for n in expected]
    assert words[1] == (0, 1)
    for _ in range(2):
        assert [words_of(run(library, model, inputs(1))[1]) for _ in range(4)] == words
        assert library.cf_reset(model) == CF_OK


def test_a_failed_run_leaves_the_state_as_it_was(library: Any, model: ctypes.c_void_p) -> None:
    """The random generator's as well."""
    before(library, model, 5)
    status, fetches = run(library, model, inputs(POISON))
    assert (status, library.cf_last_error(model)) == (CF_ERR_KERNEL, b"a compiled kernel reported an error")
    assert not any(fetch.any() for fetch in fetches.values())
    assert kept(library, model) == (5, AFTER)
    status, fetches = run(library, model, inputs(1))
    assert (status, int(fetches["before"][0]), library.cf_last_error(model)) == (CF_OK, 5, b"")
    assert words_of(fetches) == (0, 1)


def test_calls_during_a_run_of_another_thread_are_refused_and_change_nothing(
    library: Any, model: ctypes.c_void_p
) -> None:
    reader, writer = os.pipe()
    state, size = (ctypes.c_int32 * 2)(9, 3), ctypes.c_size_t(STATE)
    with ThreadPoolExecutor(1) as pool, closing_files(reader, writer):  # which ends a run that still waits
        running = pool.submit(run, library, model, inputs(WAIT + reader))
        end = time.monotonic() + 60
        while library.cf_get_state(model, (ctypes.c_int32 * 2)(), size) != CF_ERR_BUSY:
            assert time.monotonic() < end
        refused, fetches = run(library, model, inputs(1))
        others = (library.cf_reset(model), library.cf_set_state(model, state, size), library.cf_close(model))
        os.write(writer, b"x")
        status, found = running.result(60)
    assert {refused, *others} == {CF_ERR_BUSY}
    assert not any(fetch.any() for fetch in fetches.values())
    assert (status, int(found["before"][0])) == (CF_OK, FIRST)
    assert before(library, model, 1) == WAIT + reader


@contextmanager
def closing_files(*descriptors: int) -> Iterator[None]:
    """Close the descriptors at the end, those that others write to first."""
    try:
        yield
    finally:
        for descriptor in reversed(descriptors):
            os.close(descriptor)


def test_state_of_another_size_is_refused(library: Any, model: ctypes.c_void_p) -> None:
    buffer = ctypes.create_string_buffer(16)
    for of_state in (library.cf_get_state, library.cf_set_state):
        for data, size, has in ((buffer, 7, 7), (buffer, 9, 9), (buffer, 0, 0), (None, 8, 0), (None, 9, 9)):
            assert of_state(model, data, ctypes.c_size_t(size)) == CF_ERR_ARGUMENT
            assert library.cf_last_error(model) == b"the state has 8 bytes, not %d" % has
        assert of_state(None, buffer, ctypes.c_size_t(STATE)) == CF_ERR_ARGUMENT
    assert library.cf_reset(None) == CF_ERR_ARGUMENT
    assert buffer.raw == bytes(16)
    assert kept(library, model) == (FIRST, FIRST)
    assert library.cf_last_error(model) == b""


def test_a_port_that_is_null_is_named(library: Any, model: ctypes.c_void_p) -> None:
    """One without elements may be."""
    feeds, fetches = inputs(1), outputs()
    feed_ports, fetch_ports = ports(feeds), ports(fetches)
    feed_ports[7].data = fetch_ports[8].data = None
    arguments = (feed_ports, len(feeds), fetch_ports, len(fetches))
    for of, kind, names in ((feed_ports, "feed", [*FEEDS][:7]), (fetch_ports, "fetch", [*FETCHES][:8])):
        for i, name in enumerate(names):
            place, of[i].data = of[i].data, None
            assert call(library, model, *arguments) == CF_ERR_ARGUMENT
            assert library.cf_last_error(model) == f"{kind} {name} is NULL".encode()
            of[i].data = place
    assert not any(fetch.any() for fetch in fetches)
    assert kept(library, model) == (FIRST, FIRST)
    assert call(library, model, *arguments) == CF_OK


def test_a_port_of_another_size_is_named(library: Any, model: ctypes.c_void_p) -> None:
    """By one byte, or by all."""
    feeds, fetches = inputs(1), outputs()
    feed_ports, fetch_ports = ports(feeds), ports(fetches)
    arguments = (feed_ports, len(feeds), fetch_ports, len(fetches))
    for of, kind, names in ((feed_ports, "feed", FEEDS), (fetch_ports, "fetch", FETCHES)):
        for i, name in enumerate(names):
            right = of[i].size
            for wrong in {0, right - 1, right + 1} - {right, -1}:
                of[i].size = wrong
                assert call(library, model, *arguments) == CF_ERR_ARGUMENT
                expected = f"{kind} {name} takes {right} bytes, not {wrong}"
                assert library.cf_last_error(model).decode() == expected
            of[i].size = right
    assert not any(fetch.any() for fetch in fetches)
    assert call(library, model, *arguments) == CF_OK


def test_another_number_of_ports_is_refused(library: Any, model: ctypes.c_void_p) -> None:
    feeds, fetches = ports(inputs(1)), ports(outputs())
    assert (len(feeds), len(fetches)) == (8, 9)
    for (of, count), (into, into_count), says in (
        ((feeds, 7), (fetches, 9), "8 feeds, not 7"),
        ((feeds, 9), (fetches, 9), "8 feeds, not 9"),
        ((feeds, 0), (fetches, 9), "8 feeds, not 0"),
        ((None, 8), (fetches, 9), "8 feeds, not 0"),
        ((None, 7), (fetches, 9), "8 feeds, not 7"),
        ((feeds, 8), (fetches, 8), "9 fetches, not 8"),
        ((feeds, 8), (fetches, 10), "9 fetches, not 10"),
        ((feeds, 8), (None, 9), "9 fetches, not 0"),
        ((None, 0), (None, 0), "8 feeds, not 0"),
    ):
        assert call(library, model, of, count, into, into_count) == CF_ERR_ARGUMENT
        assert library.cf_last_error(model).decode() == f"the model has {says}"
    assert call(library, None, feeds, 8, fetches, 9) == CF_ERR_ARGUMENT


def test_what_is_opened_needs_a_place(library: Any) -> None:
    assert library.cf_open(1, None) == CF_ERR_ARGUMENT
    assert library.cf_last_error(None) == b"cf_open: model is NULL"
    library.cf_close(None)


# A library of several signatures, with long names.

NAMES = ("a" * 100, "b" * 100, "c" * 100)
PORTS = ("p" * 300, "q" * 226, "r" * 240)
"""Of the signatures' second feeds: a name that fills the text alone, and two with which it ends within the sizes."""

SIZES = ((16, 32), (16, 32), (16,))

WORDY = replace(
    SPEC,
    source=Source("saved_model", Path("m"), signature=NAMES[0]),
    batches=(1, 2),
    signatures=tuple(SignatureSpec(name) for name in NAMES[1:]),
)


def wordy(batch: int, port: str) -> Program:
    """No steps. One feed is the same in every batch, the other is not."""
    feeds = (TensorSpec("same", "float32", (4,)), TensorSpec(port, "float32", (batch, 4)))
    return Program(
        (), tuple(BoundPort(feed, Buffer("arena", 64 * i, feed.size)) for i, feed in enumerate(feeds)), (), (), 128, 0
    )


@pytest.fixture(scope="module")
def wordy_library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("wordy")
    programs = {
        variant: wordy(variant.batch, PORTS[variant.signature])
        for variant in WORDY.variants
        if 16 * variant.batch in SIZES[variant.signature]
    }
    first = programs.pop(WORDY.variants[0])
    return load(link(emit_sources(first, WORDY, X86_64, folder, others=programs), [], folder))


@pytest.fixture
def wordy_model(wordy_library: Any) -> Iterator[ctypes.c_void_p]:
    opened = ctypes.c_void_p()
    assert wordy_library.cf_open(1, ctypes.byref(opened)) == CF_OK
    yield opened
    wordy_library.cf_close(opened)


def run_wordy(library: Any, model: ctypes.c_void_p, *sizes: int) -> int:
    data = ctypes.create_string_buffer(64)
    place = ctypes.addressof(data)
    return call(library, model, (Port * 2)(*[Port(place, size) for size in sizes]), 2, None, 0)


def test_a_signature_is_chosen_by_its_whole_name(wordy_library: Any, wordy_model: ctypes.c_void_p) -> None:
    """NULL is the first. What is refused changes nothing."""
    say, choose = wordy_library.cf_last_error, wordy_library.cf_set_signature

    def current() -> str:
        assert run_wordy(wordy_library, wordy_model, 16, 0) == CF_ERR_ARGUMENT
        return chr(say(wordy_model)[len("feed ")])

    assert current() == "p"
    for name, port in ((NAMES[1], "q"), (NAMES[2], "r"), (None, "p"), (NAMES[1], "q"), (NAMES[0], "p")):
        assert choose(wordy_model, name.encode() if name else None) == CF_OK
        assert say(wordy_model) == b""
        assert current() == port
    for wrong in ("", "a", NAMES[0][1:], NAMES[0] + "a", "d" * 60, "d" * 61):
        assert choose(wordy_model, wrong.encode()) == CF_ERR_ARGUMENT
        whole = f"there is no signature {wrong[:60]}; there is {', '.join(NAMES)}"
        assert say(wordy_model).decode() == whole[:255]
        assert current() == "p"
    assert choose(None, NAMES[0].encode()) == CF_ERR_ARGUMENT


@pytest.mark.parametrize("signature", range(3))
def test_a_text_that_is_too_long_ends_early(wordy_library: Any, wordy_model: ctypes.c_void_p, signature: int) -> None:
    assert wordy_library.cf_set_signature(wordy_model, NAMES[signature].encode()) == CF_OK
    sizes = SIZES[signature]
    for size in {0, 15, 17, 31, 32, 33, 48}.difference(sizes):  # one has no 32, which the others have
        assert run_wordy(wordy_library, wordy_model, 16, size) == CF_ERR_ARGUMENT
        whole = f"feed {PORTS[signature]} takes {' or '.join(map(str, sizes))} bytes, not {size}"
        assert wordy_library.cf_last_error(wordy_model).decode() == whole[:255]
    for size in sizes:
        assert run_wordy(wordy_library, wordy_model, 16, size) == CF_OK


def test_a_size_that_all_batches_have_is_told_once(wordy_library: Any, wordy_model: ctypes.c_void_p) -> None:
    assert run_wordy(wordy_library, wordy_model, 15, 16) == CF_ERR_ARGUMENT
    assert wordy_library.cf_last_error(wordy_model) == b"feed same takes 16 bytes, not 15"


def test_a_model_without_state_has_one_of_no_bytes(wordy_library: Any, wordy_model: ctypes.c_void_p) -> None:
    buffer = ctypes.create_string_buffer(b"kept", 4)
    for of_state in (wordy_library.cf_get_state, wordy_library.cf_set_state):
        for data in (buffer, None):
            assert of_state(wordy_model, data, ctypes.c_size_t(0)) == CF_OK
            assert of_state(wordy_model, data, ctypes.c_size_t(1)) == CF_ERR_ARGUMENT
            assert wordy_library.cf_last_error(wordy_model) == b"the state has 0 bytes, not 1"
    assert buffer.raw == b"kept"


def test_a_model_without_fetches_takes_none(wordy_library: Any, wordy_model: ctypes.c_void_p) -> None:
    feeds, fetch = ports([np.zeros(4, np.float32)] * 2), ports([np.zeros(1, np.float32)])
    assert call(wordy_library, wordy_model, feeds, 2, fetch, 0) == CF_OK
    for fetches in (fetch, None):
        assert call(wordy_library, wordy_model, feeds, 2, fetches, 1) == CF_ERR_ARGUMENT
        assert wordy_library.cf_last_error(wordy_model) == b"the model has 0 fetches, not 1"
