"""The machine that something was measured on: its processor, and the peak speed of one thread, measured with NumPy.

A step of a model may be above the peak of copying: its data can come from a cache.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from builder.base.errors import EnvironmentSetupError


def cpu_name() -> str:
    """Return the processor's name."""
    try:
        match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.machine()


_PROGRAM = """
import json, time
import numpy as np

def best(run, rounds):
    run()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)

n = 512  # a round is short, so that some are not disturbed
a, b, c = (np.ones((n, n), np.float32) for _ in range(3))
flops = 2 * n**3 / best(lambda: np.matmul(a, b, out=c), 300)
source, target = np.ones(32 << 20, np.float32), np.ones(32 << 20, np.float32)
bandwidth = 2 * source.nbytes / best(lambda: np.copyto(target, source), 20)
print(json.dumps({"gflops": flops / 1e9, "bandwidth": bandwidth / 1e9}))
"""


def measure_peak() -> dict[str, float]:
    """Return the fastest of several rounds, on one thread. Takes about 2 s. Raises EnvironmentSetupError.

    ``gflops``: of OpenBLAS's product of two 512 x 512 matrices of float32, 10^9 operations per second. ``bandwidth``:
    of copying 128 MiB, read and written bytes together, 10^9 bytes per second.
    """
    single_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-c", _PROGRAM]  # a process of its own: BLAS counts its threads when it is loaded
    process = subprocess.run(command, env=os.environ | single_thread, capture_output=True, text=True, check=False)
    if process.returncode:
        raise EnvironmentSetupError(f"this machine's peak cannot be measured:\n{process.stderr.strip()[-500:]}")
    peak: dict[str, float] = json.loads(process.stdout)
    return peak
