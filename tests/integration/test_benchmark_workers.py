"""The processes that a benchmark measures in end with it, though they are stopped while another has its turn."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.models import SAMPLES
from builder.package.bundle import Bundle
from tests.conftest import ROOT
from tests.support.process import stop

pytestmark = pytest.mark.integration

PARENT = """
import signal, sys, time
from pathlib import Path
from types import SimpleNamespace
from benchmarks.process import Setting, Worker

# Whoever runs the tests in the background may have them ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
worker = Worker("coldforge", SimpleNamespace(folder=Path(sys.argv[1])), Setting(threads=1))
worker.ask(do="time", least=1, budget=0)
print(worker.process.pid, flush=True)
time.sleep(600)
"""
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def adopting() -> Iterator[None]:
    """This process adopts what its children leave behind, as a container's first process does.

    The kernel hangs up a stopped process that is left to another session; one that is left to us it doesn't.
    """
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


@pytest.fixture
def network(emotion: Bundle, tmp_path: Path) -> Path:
    """A network's folder with what a worker of our own engine reads."""
    (tmp_path / "coldforge").mkdir()
    (tmp_path / "coldforge" / "libmodel.so").symlink_to(emotion.library)
    (tmp_path / "keras").mkdir()
    feed = json.loads(emotion.description.read_text())["feeds"][0]
    for number in range(SAMPLES):
        (tmp_path / "keras" / f"{number}.in").write_bytes(bytes(feed["bytes"]))
    return tmp_path


def state(pid: int) -> str:
    """As in ``ps``: T is stopped, Z has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_stopped_worker_ends_with_the_benchmark(adopting: None, network: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(network)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        try:
            assert parent.stdout
            worker = int(parent.stdout.readline())
            end = time.monotonic() + 20
            while state(worker) != "T" and time.monotonic() < end:
                time.sleep(0.01)
            assert state(worker) == "T"
            parent.send_signal(number)
            parent.wait(20)
        finally:
            stop(parent)
    try:
        end, left = time.monotonic() + 20, (0, 0)
        while left[0] == 0 and time.monotonic() < end:
            left = os.waitpid(worker, os.WNOHANG)
            time.sleep(0.01)
        assert left == (worker, signal.SIGKILL)
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
