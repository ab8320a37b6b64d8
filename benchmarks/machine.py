"""What the figures were measured on and with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.engines import ENGINES
from builder import __version__

_FLAGS = ("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512vl", "avx512_vnni", "amx_tile")


def describe() -> dict[str, Any]:
    """The processor, its vector instruction sets, and how busy it is just now."""
    info: dict[str, str] = {}
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    flags = info.get("flags", info.get("Features", "")).split()
    return {
        "processor": info.get("model name", platform.processor() or platform.machine()),
        "family_model_stepping": [info.get(key, "") for key in ("cpu family", "model", "stepping")],
        "instruction_sets": [flag for flag in _FLAGS if flag in flags],
        "cpus": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


def versions() -> dict[str, str]:
    """Every engine's version; those that are not installed are left out."""
    found = {"coldforge": __version__}
    for kind in ENGINES.values():
        if kind.package:
            try:
                found[kind.package] = importlib.metadata.version(kind.package)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found
