"""Memory of several processes that run one model: how much of it is the library's, and shared.

``python -m benchmarks.frames.processes dist/bindings/age_gender/python/age_gender`` prints a line for each number.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

COUNTS = (1, 2, 4, 8, 16)

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
    """Of ``processes`` together, in bytes. PSS: what a process has alone, and its share of what it has with others.

    ``library``: PSS of libmodel.so's pages. ``pss``: of all pages. ``private``: what is no other process's.
    """

    processes: int
    library: int
    pss: int
    private: int


def measure(count: int, program: str, arguments: Sequence[str], python: str = sys.executable) -> Memory:
    """``count`` processes that have run ``program`` and wait. Raises RuntimeError for one that failed."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_waiting(python, program, arguments)) for _ in range(count)]
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"a process of {arguments} failed")
        pids = [process.pid for process in processes]
        totals = [dict(_rollup(pid)) for pid in pids]
        return Memory(
            count,
            sum(map(_library, pids)),
            sum(total["Pss"] for total in totals),
            sum(total["Private_Clean"] + total["Private_Dirty"] for total in totals),
        )


@contextmanager
def _waiting(python: str, program: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [python, "-c", program + _READY, *arguments]
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


if __name__ == "__main__":
    package = Path(sys.argv[1])
    print("processes   libmodel.so   all    private, each   (MB of PSS)")
    for number in COUNTS:
        one = measure(number, PREDICT, [str(package.parent), package.name])
        library, pss, private = (size / 1e6 for size in one[1:])
        print(f"{number:9}{library:14.1f}{pss:8.1f}{private / number:12.1f}")
