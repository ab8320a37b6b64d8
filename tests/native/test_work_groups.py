"""XLA's kernels with several work groups: each group runs once, and the pool's threads share them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from builder.base.targets import X86_64
from builder.compiler.audit.elf_facts import read_facts
from builder.compiler.emit import emit_sources
from builder.compiler.lower.program import BoundPort, Program
from builder.compiler.lower.steps.base import Buffer
from builder.compiler.lower.steps.kernel_step import KernelStep
from builder.config import ModelSpec, Source
from builder.config.tensor import TensorSpec
from tests.support.instrumented import OBJECTS, link

GROUPS = (5, 3, 2)
COUNT = 30
KERNEL = """
#include <sched.h>
#include <stdint.h>
#include <time.h>

typedef struct { uint64_t x, y, z; } dim3;
typedef struct { void *data; uint64_t size; } argument;
typedef struct { const dim3 *groups, *group; uint64_t count; const argument *arguments; } frame;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* Where feed[0] says so, groups wait until two are at work at the same time, but not for ever. */
void *graph_groups(const frame *f) {
    static volatile int inside;
    const int meet = *(const int32_t *)f->arguments[0].data;
    int32_t *out = f->arguments[1].data;
    const dim3 *at = f->group, *all = f->groups;
    const long start = now();
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    int32_t *met = &out[30];
    while (meet && !__atomic_load_n(met, __ATOMIC_SEQ_CST) && now() - start < 20) {
        if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 1) __atomic_store_n(met, 1, __ATOMIC_SEQ_CST);
        sched_yield();
    }
    __atomic_add_fetch(&out[at->x + all->x * (at->y + all->y * at->z)], 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    return 0;
}
"""
SPEC = ModelSpec(Path("model.toml"), "groups", "1", Source("graph_def", Path("g.pb")))


class Slot(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("groups")
    (folder / "kernel.c").write_text(KERNEL)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.34", "-O1", "-fPIC", "-c"]
    subprocess.run([*command, "kernel.c", "-o", "graph.o"], cwd=folder, check=True)
    feed, counts = TensorSpec("meet", "int32", (1,)), TensorSpec("runs", "int32", (COUNT + 1,))
    zeros = Buffer("arena", 64, counts.size)
    program = Program(
        (KernelStep("groups", "graph_groups", (Buffer("arena", 0, 4),), (zeros,), GROUPS),),
        (BoundPort(feed, Buffer("arena", 0, 4)), BoundPort(TensorSpec("zeros", "int32", (COUNT + 1,)), zeros)),
        (BoundPort(counts, zeros),),
        (),
        256,
        0,
    )
    return ctypes.CDLL(str(link(emit_sources(program, SPEC, X86_64, folder), [folder / "graph.o"], folder)))


def run(library: ctypes.CDLL, threads: int, *, meet: bool) -> np.ndarray:
    model = ctypes.c_void_p()
    assert library.cf_open(ctypes.c_uint32(threads), ctypes.byref(model)) == 0
    feeds = [np.array([meet], np.int32), np.zeros(COUNT + 1, np.int32)]
    runs = np.full(COUNT + 1, -1, np.int32)
    inputs = (Slot * 2)(*[Slot(a.ctypes.data, a.nbytes) for a in feeds])
    output = (Slot * 1)(Slot(runs.ctypes.data, runs.nbytes))
    assert library.cf_run(model, inputs, ctypes.c_size_t(2), output, ctypes.c_size_t(1)) == 0
    library.cf_close(model)
    return runs


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_group_runs_once(library: ctypes.CDLL, threads: int) -> None:
    for _ in range(20):
        np.testing.assert_array_equal(run(library, threads, meet=False)[:COUNT], np.ones(COUNT))


@pytest.mark.parametrize("threads", [2, 3])
def test_two_threads_are_at_work_at_once(library: ctypes.CDLL, threads: int) -> None:
    runs = run(library, threads, meet=True)
    np.testing.assert_array_equal(runs[:COUNT], np.ones(COUNT))
    assert runs[COUNT] == 1


def test_one_thread_makes_no_thread_and_none_is_left(library: ctypes.CDLL) -> None:
    code = (
        "import ctypes, os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.native import test_work_groups as t\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "tasks = lambda: len(os.listdir('/proc/self/task'))\n"
        "before, seen = tasks(), []\n"
        "class Watched:\n"
        "    def __getattr__(self, name):\n"
        "        if name == 'cf_close': seen.append(tasks() - before)\n"
        "        return getattr(library, name)\n"
        "for threads in (1, 2, 3): t.run(Watched(), threads, meet=False)\n"
        "print(*seen, tasks() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, library._name], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.split() == ["0", "1", "2", "0"]


def test_a_fork_while_another_thread_is_in_run(library: ctypes.CDLL) -> None:
    """The child must not wait for a lock that a thread of its parent holds: what run() takes is the child's too."""
    stop = threading.Event()

    def flat() -> bool:
        feeds, runs = [np.zeros(1, np.int32), np.zeros(COUNT + 1, np.int32)], np.zeros(COUNT + 1, np.int32)
        arguments: list[object] = []
        for array in (*feeds, runs):
            arguments += [ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)]
        return library.run(*arguments) == 0 and bool((runs[:COUNT] == 1).all())

    def keep_running() -> None:
        while not stop.is_set():
            assert flat()

    thread = threading.Thread(target=keep_running)
    thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                os._exit(0 if flat() and flat() else 1)
            assert wait(child) == 0
    finally:
        stop.set()
        thread.join()


def test_the_library_may_be_closed_while_its_threads_wait(library: ctypes.CDLL) -> None:
    """run() shares a model that nobody closes. Its threads are in the library's code when dlclose comes."""
    code = (
        "import _ctypes, ctypes, sys, time\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "arrays = [bytearray(4), bytearray(4 * 31), bytearray(4 * 31)]\n"
        "pointers = [(ctypes.c_char * len(a)).from_buffer(a) for a in arrays]\n"
        "assert library.run(*[v for p in pointers for v in (p, ctypes.c_size_t(len(p)))]) == 0\n"
        "_ctypes.dlclose(library._handle)\n"
        "time.sleep(0.2)\n"
        "print('alive')\n"
    )
    command = [sys.executable, "-c", code, library._name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n")


@pytest.mark.skipif(OBJECTS in os.environ, reason="of the builder's own compiler")
def test_the_librarys_sizes_are_checked_by_glibc(library: ctypes.CDLL) -> None:
    wanted = {symbol.name for symbol in read_facts(Path(library._name)).undefined}
    assert {"__vsnprintf_chk", "__memcpy_chk", "__stack_chk_fail"} <= wanted


def wait(child: int, seconds: float = 30.0) -> int:
    """The child's exit status; -1, and its end, if it does not come to one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1
