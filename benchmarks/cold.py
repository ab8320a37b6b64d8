"""The time of a fresh process until its first answer, split into import, load and first answer, and its peak memory.

The engines take turns. The page cache is warm, so that the disk is not measured. One thread runs on one CPU, as in a
Lambda function of 1,769 MB.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines import ENGINES, OURS
from benchmarks.models import Network
from benchmarks.process import EngineFailed, Setting, Worker, quantiles

PARTS = ("python_ms", "import_ms", "load_ms", "first_ms", "start_ms", "total_ms", "peak_rss_mb")


def measure(network: Network, repeats: int, engines: Sequence[str]) -> dict[str, Any]:
    """Return medians over ``repeats`` fresh processes of each engine. The latency runs before it read every file."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    excluded: dict[str, str] = {}
    for _ in range(repeats):
        for name in [name for name in engines if name not in excluded]:
            try:
                with Worker(name, network, Setting(threads=1)) as worker:
                    runs[name].append(worker.opened)
            except EngineFailed as error:
                excluded[name] = str(error)
    rows = {name: _row(name, network, starts) for name, starts in runs.items() if starts}
    return {"repeats": repeats, "engines": rows, "excluded": excluded, **compare(rows)}


def _row(name: str, network: Network, starts: list[dict[str, Any]]) -> dict[str, Any]:
    packages = sorted({package for start in starts for package in start["packages"]})
    sizes = {Path(package).name: installed_size(Path(package)) for package in packages}
    spread = quantiles([start["start_ms"] for start in starts])
    return {part: median(start[part] for start in starts) for part in PARTS} | {
        "start_p10_ms": spread["p10"],
        "start_p90_ms": spread["p90"],
        "model_bytes": model_size(network.folder / ENGINES[name].model),
        "engine_bytes": sum(sizes.values()),
        "packages": sizes,
    }


@functools.cache
def installed_size(package: Path) -> int:
    """Return the bytes of a package's folder (or module file) and of its folder of shared libraries."""
    libraries = package.with_name(f"{package.name}.libs")
    return sum(_size(path) for path in (package, libraries) if path.exists())


def model_size(model: Path) -> int:
    """Return the bytes of the model's file, and of the file of its weights if there is one beside it."""
    return sum(path.stat().st_size for path in (model, model.with_suffix(".bin")) if path.exists())


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink())


def compare(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the best peer's figure over ours, for the start, the memory and the installed size."""
    peers = [row for name, row in rows.items() if name != OURS]
    if OURS not in rows or not peers:
        return {"start_ratio": None, "total_ratio": None, "rss_ratio": None, "size_ratio": None}

    def ratio(*parts: str) -> float:
        return float(min(sum(row[p] for p in parts) for row in peers) / sum(rows[OURS][p] for p in parts))

    return {
        "start_ratio": ratio("start_ms"),
        "total_ratio": ratio("total_ms"),
        "rss_ratio": ratio("peak_rss_mb"),
        "size_ratio": ratio("engine_bytes", "model_bytes"),
    }
