"""Confinement of a process, which permanently gives up everything that it does not need, as far as the kernel can."""

from __future__ import annotations

import os
import resource
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.base.errors import EnvironmentSetupError, UsageError
from builder.base.project import HOME
from builder.base.sandbox import landlock, seccomp
from builder.base.sandbox.libc import drop_capabilities, prefer_oom_kill

_DEMAND = "COLDFORGE_SANDBOX"
"""A variable that ends a build with an incomplete sandbox if it is ``require``."""
CONTAINED = "COLDFORGE_CONTAINED"
"""A variable of builds in Docker: the container confines them, even if the kernel's features are missing."""

WHOLE = 3
"""The first version of Landlock that keeps files from being emptied."""

_MEMORY_SHARE = 0.75
"""The share of the machine's memory for a job, so that the machine survives it."""
_SECONDS = 3600.0
_FILE_SIZE = 16 << 30
"""The largest size of a file: tfcompile's constants take up to 4 GB, each rounded up to a power of two."""

_SYSTEM = (
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/zero", "/dev/urandom", "/dev/random",
    "/sys/devices/system", "/sys/fs/cgroup", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
    "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/self/auxv", "/proc/self/cgroup",
    "/proc/self/cmdline", "/proc/self/environ", "/proc/self/fd", "/proc/self/maps", "/proc/self/smaps",
    "/proc/self/stat", "/proc/self/statm", "/proc/self/status",
)  # fmt: skip
"""System paths that programs read, without secrets, and without other processes, connections or mounts in ``/proc``."""


@dataclass(frozen=True)
class KernelFeatures:
    """The version of Landlock (``landlock``, 0 if there is none), and whether seccomp filters exist (``seccomp``)."""

    landlock: int
    seccomp: bool

    @classmethod
    def from_machine(cls) -> KernelFeatures:
        """Return the features of this machine's kernel."""
        return cls(landlock.find_landlock_version(), seccomp.has_seccomp())

    def __str__(self) -> str:
        version = f"Landlock {self.landlock}" if self.landlock else "no Landlock"
        return f"{version}, {'seccomp' if self.seccomp else 'no seccomp'}"

    def require_demanded(self, environment: Mapping[str, str] = os.environ) -> None:
        """Raise EnvironmentSetupError if DEMAND requires a complete sandbox and this one is not."""
        demand = environment.get(_DEMAND, "")
        if demand not in ("", "require"):
            raise UsageError(f"{_DEMAND}={demand} is not known: it is `require`, or not set.")
        if demand and (line := self.describe_missing(environment)):
            raise EnvironmentSetupError(f"{_DEMAND}=require, so nothing of the model is read or run.\n{line}")

    def describe_missing(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return one line for the screen, or "" if nothing is missing or the container is coldforge's own."""
        lacks = [
            *([] if self.landlock >= WHOLE else ["Landlock, so a model's code can reach this user's files"]),
            *([] if self.seccomp else ["seccomp filters, so a model's code can use the network and run programs"]),
        ]
        if not lacks or environment.get(CONTAINED):
            return ""
        return (
            f"SANDBOX INCOMPLETE: this system lacks {'; and '.join(lacks)}. Build in Docker, or on "
            "Linux 6.2 or newer, unless you trust the model."
        )


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of a job: ``memory`` in bytes, and ``seconds`` of wall-clock time and of each processor."""

    memory: int
    seconds: float = _SECONDS

    @classmethod
    def from_machine(cls, environment: Mapping[str, str] = os.environ) -> ProcessLimits:
        """Return 3/4 of the memory and an hour, or the values of COLDFORGE_MEMORY_GB and COLDFORGE_SECONDS.

        Raises UsageError for invalid values.
        """
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = _read_number(environment, "COLDFORGE_MEMORY_GB", total * _MEMORY_SHARE / 1e9)
        return cls(int(memory * 1e9), _read_number(environment, "COLDFORGE_SECONDS", _SECONDS))

    def apply_limits(self) -> None:
        """Limit this process and all that it starts, permanently."""
        processor_seconds = int(self.seconds * (os.cpu_count() or 1)) + 1
        _set_limit(resource.RLIMIT_DATA, self.memory)
        _set_limit(resource.RLIMIT_CPU, processor_seconds)
        _set_limit(resource.RLIMIT_FSIZE, _FILE_SIZE)
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


def confine_process(
    limits: ProcessLimits,
    kernel: KernelFeatures,
    reads: Iterable[Path],
    writes: Iterable[Path],
    programs: Iterable[Path] = (),
) -> None:
    """Give up all files but these, and everything else that ``kernel`` can restrict. Raises OSError.

    ``programs``: files and folders of a program that this process will execute.
    """
    prefer_oom_kill()
    limits.apply_limits()
    drop_capabilities()
    programs = list(programs)
    if kernel.landlock:
        reads = [*map(Path, _SYSTEM), *_list_interpreter_paths(), *reads]
        landlock.restrict_files(reads, [*writes, Path(os.devnull)], programs, kernel.landlock)
    if kernel.seccomp:
        seccomp.restrict_calls(runs_program=bool(programs))


def _list_interpreter_paths() -> Iterator[Path]:
    """Yield the paths of Python, its packages and this code."""
    yield from (Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (Path(prefix) / "lib" for prefix in (sys.prefix, sys.base_prefix))
    # User packages, or another environment's. Other folders in PYTHONPATH may contain more than packages.
    yield from (Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    yield HOME / "builder"
