"""Landlock: a process permanently gives up every file that it does not name.

Sources: ``include/uapi/linux/landlock.h`` and https://docs.kernel.org/userspace-api/landlock.html.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from builder.base.sandbox.libc import call_syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # The numbers are the same on every processor.
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""The number of rights over files by version; later versions have 16."""

_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
"""Rights in a process's own folder. No process may make links, devices, pipes and sockets."""
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

_TCP = 0b11  # binding and connecting
_SCOPES = 0b11  # abstract UNIX sockets, and signals


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def find_landlock_version() -> int:
    """Return the kernel's version of Landlock (its ABI), or 0 if it has none."""
    if sys.platform != "linux":
        return 0
    try:
        return call_syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:  # It is not built in, not enabled, or blocked by a container.
        return 0


def restrict_files(reads: Iterable[Path], writes: Iterable[Path], programs: Iterable[Path], abi: int) -> None:
    """Restrict this thread, and all that it starts, to reading, writing and running files below these paths.

    ``abi``: the result of ``find_landlock_version``; from 4 on TCP is forbidden too, from 6 on abstract sockets and
    signals to the outside. Missing paths are skipped, and links are followed. A descriptor of each path stays open.
    Raises OSError.
    """
    handled = (1 << _FILE_RIGHTS.get(abi, 16)) - 1
    rules = _Ruleset(handled, _TCP if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    ruleset = call_syscall(_CREATE_RULESET, ctypes.byref(rules), 24 if abi >= 6 else 16 if abi >= 4 else 8, 0)
    try:
        for paths, rights in ((reads, _READ), (writes, _WRITE), (programs, _READ | _EXECUTE)):
            for path in paths:
                _allow_path(ruleset, path, rights & handled)
        call_syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _ON_FILES
    rule = _PathBeneath(rights, descriptor)
    call_syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    # It stays open: with little memory, /proc would drop an unused inode, and the rule would not apply to a new one.
