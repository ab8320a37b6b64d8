"""Confines a process: it permanently gives up everything that it does not need."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from builder.base.project import HOME
from builder.base.sandbox import landlock, privileges, seccomp
from builder.base.sandbox.job_limits import ProcessLimits
from builder.base.sandbox.kernel import KernelFeatures

SYSTEM = (
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/zero", "/dev/urandom", "/dev/random",
    "/sys/devices/system", "/sys/fs/cgroup", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
    "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/self/auxv", "/proc/self/cgroup",
    "/proc/self/cmdline", "/proc/self/environ", "/proc/self/fd", "/proc/self/maps", "/proc/self/smaps",
    "/proc/self/stat", "/proc/self/statm", "/proc/self/status",
)  # fmt: skip
"""System paths that programs read, without secrets, and without other processes, connections or mounts in ``/proc``."""


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
    privileges.prefer_oom_kill()
    limits.apply_limits()
    privileges.drop_capabilities()
    programs = list(programs)
    if kernel.landlock:
        reads = [*map(Path, SYSTEM), *_list_interpreter_paths(), *reads]
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
