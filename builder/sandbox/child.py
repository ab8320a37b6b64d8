"""A child of the fork server: gives up everything that a job does not need, then does the job."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from builder.errors import ColdforgeError, EnvironmentSetupError
from builder.sandbox import landlock, privileges, seccomp
from builder.sandbox.job import Job, Request, error_answer, value_answer
from builder.sandbox.limits import out_of_memory

_ANSWER = 3
FAILED = 1
"""Exit code of a job that raised anything but a ColdforgeError; the log has its traceback."""

SYSTEM = (
    "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/zero", "/dev/urandom", "/dev/random",
    "/sys/devices/system", "/sys/fs/cgroup", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
    "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/self/auxv", "/proc/self/cgroup",
    "/proc/self/cmdline", "/proc/self/environ", "/proc/self/fd", "/proc/self/maps", "/proc/self/smaps",
    "/proc/self/stat", "/proc/self/statm", "/proc/self/status",
)  # fmt: skip
"""What programs read of a system; nobody's secrets, and of ``/proc`` no other process, no connection and no mount."""


def main(request: Request, scratch: Path, server: int) -> NoReturn:
    """Do the job of ``request`` and end. ``scratch``: an empty folder for temporary files; ``server``: who forked."""
    code = FAILED
    try:
        os.setsid()
        privileges.die_with_parent(server)
        _keep_only(request.log, request.answer)
        job: Job = pickle.loads(request.pickled)  # the builder's own; nothing of a model has been read yet
        _move_in(job, scratch)
        _confine(job, scratch)
        _answer(job)
        sys.stdout.flush()
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):  # the log's disk is full
            traceback.print_exc()
            sys.stdout.flush()
    finally:
        os._exit(code)


def _answer(job: Job) -> None:
    try:
        answer = value_answer(job.function(*job.arguments))
    except ColdforgeError as error:
        answer = error_answer(error.exit_code, str(error))
    except MemoryError:
        answer = error_answer(EnvironmentSetupError.exit_code, out_of_memory(job.limits))
    with os.fdopen(_ANSWER, "wb") as file:
        file.write(answer)


def _keep_only(log: int, answer: int) -> None:
    """Standard output and error in ``log``, ``answer`` as the only other descriptor."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log, answer, nothing = (os.dup2(d, 64 + i, inheritable=False) for i, d in enumerate((log, answer, nothing)))
    for descriptor, wanted in ((nothing, 0), (log, 1), (log, 2), (answer, _ANSWER)):
        os.dup2(descriptor, wanted)
    os.closerange(_ANSWER + 1, os.sysconf("SC_OPEN_MAX"))


def _move_in(job: Job, scratch: Path) -> None:
    """Everything that finds a folder by the environment finds the private one."""
    places = ("TMPDIR", "HOME", "KERAS_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
    os.environ.update(dict.fromkeys(places, str(scratch)))
    tempfile.tempdir = None
    os.chdir(job.writes)


def _confine(job: Job, scratch: Path) -> None:
    privileges.killed_first()
    job.limits.apply()
    privileges.drop()
    if job.kernel.landlock:
        reads = [*map(Path, SYSTEM), *_interpreter(), *job.reads]
        landlock.restrict(reads, [job.writes, scratch, Path(os.devnull)], job.kernel.landlock)
    if job.kernel.seccomp:
        seccomp.restrict()


def _interpreter() -> Iterator[Path]:
    """Python, its packages and this code."""
    yield from (Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (Path(prefix) / "lib" for prefix in (sys.prefix, sys.base_prefix))
    # A user's own, or another environment's: of what else PYTHONPATH names, nobody knows that it is only packages.
    yield from (Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    yield Path(__file__).resolve().parents[1]
