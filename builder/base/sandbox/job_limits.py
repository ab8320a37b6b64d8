"""Limits on the memory, time and disk space of a job."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass

from builder.base.errors import UsageError

MEMORY_SHARE = 0.75
"""The share of the machine's memory for a job, so that the machine survives it."""
SECONDS = 3600.0
FILE_SIZE = 16 << 30
"""The largest size of a file: tfcompile's constants take up to 4 GB, each rounded up to a power of two."""


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of a job: ``memory`` in bytes, and ``seconds`` of wall-clock time and of each processor."""

    memory: int
    seconds: float = SECONDS

    @classmethod
    def from_machine(cls, environment: Mapping[str, str] = os.environ) -> ProcessLimits:
        """Return 3/4 of the memory and an hour, or the values of COLDFORGE_MEMORY_GB and COLDFORGE_SECONDS.

        Raises UsageError for invalid values.
        """
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = _read_number(environment, "COLDFORGE_MEMORY_GB", total * MEMORY_SHARE / 1e9)
        return cls(int(memory * 1e9), _read_number(environment, "COLDFORGE_SECONDS", SECONDS))

    def apply_limits(self) -> None:
        """Limit this process and all that it starts, permanently."""
        processor_seconds = int(self.seconds * (os.cpu_count() or 1)) + 1
        _set_limit(resource.RLIMIT_DATA, self.memory)
        _set_limit(resource.RLIMIT_CPU, processor_seconds)
        _set_limit(resource.RLIMIT_FSIZE, FILE_SIZE)
        _set_limit(resource.RLIMIT_CORE, 0)


def explain_out_of_memory(limits: ProcessLimits) -> str:
    """Return the message for a job that needs more memory."""
    return (
        f"the model needs more than {limits.memory / 1e9:.1f} GB, which is what reading or compiling one may have; "
        "COLDFORGE_MEMORY_GB=... gives it more."
    )


def _set_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _read_number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"{name}={text} is not a number above 0.")
    return value
