"""Confine a process: it gives up everything that it does not need, for itself and for good."""

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
"""Paths that programs read of a system; nobody's secrets, and of ``/proc`` no other process, connection or mount."""


def confine_process(
    limits: ProcessLimits,
    kernel: KernelFeatures,
    reads: Iterable[Path],
    writes: Iterable[Path],
    programs: Iterable[Path] = (),
) -> None:
    """Give up all files but these, and all else that ``kernel`` can take away. Raises OSError.

    ``programs``: files and folders of a program that this process is to become.
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
    """Python, its packages and this code."""
    yield from (Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (Path(prefix) / "lib" for prefix in (sys.prefix, sys.base_prefix))
    # A user's own, or another environment's: of what else PYTHONPATH names, nobody knows that it is only packages.
    yield from (Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    yield HOME / "builder"
