"""A real model on several threads, in processes that are frozen and thawed, or that fork."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from builder.importers.graph import FrozenGraph
from builder.package.bundle import Bundle
from builder.verify.golden import GoldenFile
from tests.conftest import ROOT
from tests.support.process import stop
from tests.support.run import run_library

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("checkout")]

RUNS = 300
ALONE = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
"""So that NumPy has no threads of its own, which would be counted."""


def samples() -> list[list[Any]]:
    """The golden inputs."""
    graph = FrozenGraph.load(ROOT / "build" / "emotion" / "import")
    with GoldenFile.open(graph.golden_path) as golden:
        return [[golden.read_feed(case, port.spec.name) for port in graph.feeds] for case in golden.cases]


def answers(library: Path, threads: int) -> bytes:
    return b"".join(a.tobytes() for fetches in run_library(library, samples(), threads) for a in fetches)


def repeat(library: Path, threads: int) -> None:
    """In a child: say when the runs begin, and whether every one gave what one thread gives."""
    one = answers(library, 1)
    print("begin", flush=True)
    many = run_library(library, samples() * RUNS, threads)
    got = b"".join(a.tobytes() for fetches in many for a in fetches)
    print("right" if got == one * RUNS else "wrong", flush=True)


@pytest.fixture(scope="module")
def golden(emotion: Bundle) -> bytes:
    """TensorFlow's answers are near these, which verify saw to; here they must be these to the last bit."""
    return answers(emotion.library, 1)


@pytest.mark.quick
@pytest.mark.parametrize("threads", [0, 2, 3, 8])
def test_any_number_of_threads_gives_the_same_bytes(emotion: Bundle, golden: bytes, threads: int) -> None:
    assert answers(emotion.library, threads) == golden


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_freezing_and_thawing_changes_nothing(emotion: Bundle, threads: int) -> None:
    code = f"import sys; from tests.integration import test_threads as t; t.repeat(sys.argv[1], {threads})"
    command = [sys.executable, "-c", code, str(emotion.library)]
    rng = random.Random(threads)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        try:
            assert child.stdout.readline() == "begin\n"
            stops, end = 0, time.monotonic() + 120
            while child.poll() is None and time.monotonic() < end:
                time.sleep(rng.uniform(0.0005, 0.02))
                child.send_signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.0005, 0.02))
                child.send_signal(signal.SIGCONT)
                stops += 1
        finally:
            stop(child)
        assert child.stdout.read() == "right\n"
    assert stops >= 10


FORKS = """
import ctypes, os, sys, time
import numpy as np
from tests.integration import test_threads as t
from tests.support.run import _ports

abi = ctypes.CDLL(sys.argv[1])
model, other = ctypes.c_void_p(), ctypes.c_void_p()
assert abi.cf_open(2, ctypes.byref(model)) == abi.cf_open(2, ctypes.byref(other)) == 0
sample = t.samples()[0]

def run(which):
    fetch = [np.empty(7, np.float32)]
    assert abi.cf_run(which, _ports(sample), ctypes.c_size_t(1), _ports(fetch), ctypes.c_size_t(1)) == 0
    return fetch[0].tobytes()

def tasks():
    return len(os.listdir("/proc/self/task"))

def left_alone():
    # Whether this thread is soon the only one: Linux lets pthread_join return before it takes a thread from the list.
    end = time.monotonic() + 20
    while tasks() != 1 and time.monotonic() < end:
        time.sleep(0.001)
    return tasks() == 1

def leave(**checks):
    # End this child, with the names of the checks that failed on stderr.
    failed = [name for name, good in checks.items() if not good]
    os.write(2, "".join(f"generation {generation}: not {name}\\n" for name in failed).encode())
    os._exit(1 if failed else 0)

right = run(model)  # its thread is there now, that of the other is not
had = tasks()
for generation in range(20):
    child = os.fork()
    if child == 0:
        checks = {"without_threads_of_the_parent": tasks() == 1}
        checks["right_answers"] = all(run(which) == right for which in (model, other, model))
        if generation % 2:  # and a fork of the fork
            inner = os.fork()
            if inner == 0:
                leave(right_answer_in_the_inner_fork=run(model) == right)
            checks["inner_fork_well"] = os.waitpid(inner, 0)[1] == 0
        abi.cf_close(model)
        abi.cf_close(other)
        leave(**checks, threads_gone_after_close=left_alone())
    assert run(model) == right
    assert os.waitpid(child, 0)[1] == 0
    assert tasks() == had
print("right")
"""


@pytest.mark.quick
def test_a_fork_after_open_and_after_runs(emotion: Bundle) -> None:
    """Parent and child both go on, each with threads of its own."""
    command = [sys.executable, "-c", FORKS, str(emotion.library)]
    done = subprocess.run(command, cwd=ROOT, env=ALONE, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "right\n", done.stderr


@pytest.mark.quick
def test_one_thread_makes_no_thread(emotion: Bundle) -> None:
    code = (
        "import os, sys; from tests.integration import test_threads as t\n"
        "from pathlib import Path\n"
        "tasks = lambda: set(os.listdir('/proc/self/task'))\n"
        "before = tasks(); t.answers(Path(sys.argv[1]), 1); print(tasks() == before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(emotion.library)],
        cwd=ROOT,
        env=ALONE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr
