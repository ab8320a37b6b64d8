"""System calls that Python has no function for, and the privileges that a process gives up by them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any

_SET_PDEATHSIG, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 1, 24, 38, 47
_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63


def _call_prctl(option: int, *arguments: int) -> None:
    """Call prctl. Raises OSError."""
    _call_function("prctl", ctypes.c_int, option, *arguments, *([0] * (4 - len(arguments))))


def call_syscall(number: int, *arguments: object) -> int:
    """Return the result of a system call with integers and ctypes' pointers as arguments. Raises OSError."""
    return _call_function("syscall", ctypes.c_long, number, *arguments)


def _call_function(function: str, result: Any, *arguments: object) -> int:
    called = getattr(ctypes.CDLL(None, use_errno=True), function, None)
    if called is None:
        raise OSError(0, f"this system's C library has no {function}")
    called.restype = result
    value: int = called(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return value


def die_with_parent(parent: int) -> None:
    """Make the kernel send SIGKILL when the parent ends, and at once if it is no longer ``parent``."""
    if sys.platform == "linux":
        _call_prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def drop_capabilities() -> None:
    """Drop all capabilities, also root's, so that no program can regain one. Raises OSError."""
    if sys.platform != "linux":
        return
    _call_prctl(_SET_NO_NEW_PRIVS, 1)
    for capability in range(_LAST_CAPABILITY + 1):
        with contextlib.suppress(OSError):  # This kernel does not have it, or root may not drop it.
            _call_prctl(_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):  # Linux before 4.3 has none.
        _call_prctl(_CAP_AMBIENT, _CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _call_function("capset", ctypes.c_int, ctypes.byref(header), ctypes.byref(nothing))


def prefer_oom_kill() -> None:
    """Make the kernel end this process before any other when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
