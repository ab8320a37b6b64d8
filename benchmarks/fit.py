"""``python -m benchmarks.fit``: measure 3x3 layers by each algorithm, and fit builder/compiler/lower/costs.py.

Each geometry has several copies of its weights, which take turns, so that no cache has them when they are read again,
as in a network. A time is the lower quartile over all runs. ``--json FILE`` keeps the times.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from builder.compiler.lower.costs import FACTORS, CostFactors, count_operations, estimate_cost
from builder.compiler.lower.geometry import Algorithm, Geometry
from tests.support.fused import Case, Kernels, build, prepare

SIDES = ((3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (7, 4), (8, 1), (10, 1), (12, 1), (14, 1), (28, 1))  # side, batch
CHANNELS = ((16, 16), (32, 64), (64, 64), (128, 128), (256, 256), (512, 512), (64, 256), (256, 32))
TABLES = ("v3", "v4")
MOST = 28 * 28 * 128 * 128  # positions times channels in times channels out: larger layers show nothing new
BYTES = 40 << 20  # of all copies of the weights
RUNS = 24

Times = dict[Geometry, dict[Algorithm, float]]


def geometries() -> Iterator[Geometry]:
    for side, batch in SIDES:
        for inner, outer in CHANNELS:
            if side * side * batch * inner * outer <= MOST:
                yield Geometry(batch, inner, (side, side), outer, (3, 3))


def measure(kernels: Kernels) -> Times:
    """Measure each geometry and algorithm: seconds, the geometric mean over the instruction sets."""
    return {
        geometry: {
            algorithm: math.prod(_time(kernels, geometry, algorithm, t) for t in TABLES) ** (1 / len(TABLES))
            for algorithm in FACTORS
        }
        for geometry in geometries()
    }


def _time(kernels: Kernels, geometry: Geometry, algorithm: Algorithm, table: str) -> float:
    gaps = [16 if channels % 512 == 0 else 0 for channels in (geometry.in_channels, geometry.out_channels)]
    case = Case(geometry, algorithm, (1, 1, 1, 1), geometry.out_size, *gaps, activation="clamp", low=0.0, high=6.0)
    copies = [prepare(case, 1) for _ in range(max(2, min(12, BYTES // (4 * geometry.weights))))]
    context = kernels.context(table, 1)
    times = [
        kernels.library.cf_test_time(context, ctypes.byref(copy.layer), ctypes.byref(copy.data), 1)
        for _ in range(max(3, RUNS // len(copies)))
        for copy in copies
    ]
    return float(sorted(times)[len(times) // 4])


def fit(times: Times) -> dict[Algorithm, CostFactors]:
    """Return the nonnegative factors with the least relative error, as multiples of the multiply-add of ``direct``."""
    fitted = {}
    for algorithm in FACTORS:
        matrix = np.array([count_operations(geometry, algorithm) for geometry in times], float)
        seconds = np.array([of[algorithm] for of in times.values()])
        fitted[algorithm] = _not_negative(matrix / seconds[:, None])
    return {a: CostFactors(*(round(float(x / fitted["direct"][0]), 2) for x in of)) for a, of in fitted.items()}


def _not_negative(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x >= 0 with matrix @ x near 1; each column that would get a negative factor is left out."""
    used = [i for i in range(matrix.shape[1]) if matrix[:, i].any()]
    while True:
        x, *_ = np.linalg.lstsq(matrix[:, used], np.ones(len(matrix)), rcond=None)
        if (x >= 0).all():
            whole = np.zeros(matrix.shape[1])
            whole[used] = x
            return whole
        used.pop(int(np.argmin(x)))


def regret(times: Times) -> float:
    """Return how much longer the choice by today's factors takes than the best, on average: 0.05 is 5 %."""
    ratios = [
        of[min(of, key=lambda a: estimate_cost(geometry, a))] / min(of.values()) for geometry, of in times.items()
    ]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) - 1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        kernels = Kernels(build(Path(folder)))
        times = measure(kernels)
        kernels.close()
    for algorithm, factors in fit(times).items():
        print(f"{algorithm}: {factors}")
    print(f"{len(times)} geometries; the choice by today's factors takes {regret(times):.1%} longer than the best")
    if options.json:
        rows: list[dict[str, Any]] = [{"geometry": g.label} | dict(of) for g, of in times.items()]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
