"""The machine and the versions with which the figures were measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.engines import ENGINES, Kind
from builder import __version__

_FLAGS = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512vl", "avx512_vnni", "amx_tile"),
    *("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)

PROCESSORS = {
    "AuthenticAMD": {
        "23/49": "Zen 2 (Rome)",
        "25/1": "Zen 3 (Milan)",
        "25/17": "Zen 4 (Genoa)",
        "26/2": "Zen 5 (Turin)",
    },
    "GenuineIntel": {
        "6/85": "Skylake-SP or Cascade Lake",
        "6/106": "Ice Lake-SP",
        "6/143": "Sapphire Rapids",
        "6/207": "Emerald Rapids",
        "6/173": "Granite Rapids",
    },
    "ARM": {
        "0x41/0xd0c": "Graviton2",
        "0x41/0xd40": "Graviton3",
        "0x41/0xd4f": "Graviton4",
    },
}
"""Microarchitectures by family and model, which a hypervisor shows though it hides the name.

The numbers are from Linux' intel-family.h and cpu/amd.c. For ARM, they are Amazon's processors by implementer and part.
"""

_CORES = {"0x41/0xd0c": "Neoverse N1", "0x41/0xd40": "Neoverse V1", "0x41/0xd4f": "Neoverse V2"}
"""ARM's cores by implementer and part, from Linux' asm/cputype.h: on ARM, Linux does not show a name."""

_WIDE = {
    "amx_tile": "AVX-512 with VNNI and AMX",
    "avx512_vnni": "AVX-512 with VNNI",
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "i8mm": "NEON with i8mm",
    "asimd": "NEON",
}


def name(machine: dict[str, Any]) -> str:
    """Return the processor's name with its microarchitecture, if that is known."""
    family, model, _ = (*machine["family_model_stepping"], "", "", "")[:3]
    vendor = "AuthenticAMD" if "AMD" in machine["processor"] else "ARM" if "0x" in family else "GenuineIntel"
    kind = PROCESSORS[vendor].get(f"{family}/{model}")
    return f"{machine['processor']}, {kind}" if kind else str(machine["processor"])


def identity(machine: dict[str, Any]) -> str:
    """Return the processor with its numbers and its count of CPUs, on which ratios depend besides the code."""
    return f"{machine['processor']} {'/'.join(machine['family_model_stepping'])}, {machine['cpus']} CPUs"


def wide(machine: dict[str, Any]) -> str:
    """Return the widest vector instructions, which cause most of the differences between machines."""
    return next((label for flag, label in _WIDE.items() if flag in machine["instruction_sets"]), "other vectors")


def describe() -> dict[str, Any]:
    """Return the processor, its vector instruction sets, and its present load."""
    info: dict[str, str] = {}
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    flags = info.get("flags", info.get("Features", "")).split()
    numbers = [info.get(key, "") for key in ("cpu family", "model", "stepping")]
    if "CPU implementer" in info:
        numbers = [info.get(f"CPU {key}", "") for key in ("implementer", "part", "revision")]
    core = _CORES.get("/".join(numbers[:2]), platform.processor() or platform.machine())
    return {
        "processor": info.get("model name", core),
        "family_model_stepping": numbers,
        "instruction_sets": [flag for flag in _FLAGS if flag in flags],
        "cpus": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


def said(machine: dict[str, Any]) -> str:
    """Return a line with the processor, the relevant instruction sets, and the system."""
    numbers = "/".join(filter(None, machine["family_model_stepping"]))
    flags = ", ".join(machine["instruction_sets"])
    return f"{name(machine)} ({numbers}), {machine['cpus']} CPUs, {flags}; {machine['system']}"


def versions(kinds: Iterable[Kind] = ENGINES.values()) -> dict[str, str]:
    """Return the version of each of the engines that is installed."""
    installed = {"coldforge": __version__}
    for package in (*(kind.package for kind in kinds if kind.package), "nncf"):
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed
