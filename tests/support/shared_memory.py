"""Memory of several processes that run one model: how much of it is the library's, and shared."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

PREDICT = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib, numpy as np
module = importlib.import_module(sys.argv[2] + ".predictor")
package = importlib.import_module(sys.argv[2])
rows = {name: np.zeros((2, *port.shape[1:]), port.dtype) for name, port in zip(module.INPUTS, package.FEEDS)}
predict = module.Predictor()
predict(rows), predict(rows)
"""
"""A process that has answered twice. Arguments: the package's folder and name."""

_READY = "\nprint('ready', flush=True)\nsys.stdin.read()\n"


class Memory(NamedTuple):
    """Bytes of PSS: the pages that a process has alone, and its share of those that it has with others.

    ``library``: of libmodel.so's pages, summed over the processes. ``pss``: of all pages.
    """

    library: int
    pss: int


def measure_memory(count: int, arguments: Sequence[str]) -> Memory:
    """Measure ``count`` processes that have run PREDICT and wait. Raises RuntimeError for one that failed."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_waiting(arguments)) for _ in range(count)]
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"a process of {arguments} failed")
        pids = [process.pid for process in processes]
        return Memory(sum(map(_library, pids)), sum(dict(_rollup(pid))["Pss"] for pid in pids))


@contextmanager
def _waiting(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PREDICT + _READY, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def _rollup(pid: int) -> Iterator[tuple[str, int]]:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        yield name.rstrip(":"), int(size) * 1024


def _library(pid: int) -> int:
    """PSS of the mappings of libmodel.so."""
    found, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):  # a mapping's own line, with its path at the end
            inside = line.endswith("/libmodel.so")
        elif inside and first == "Pss:":
            found += int(line.split()[1]) * 1024
    return found
