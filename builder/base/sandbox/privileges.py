"""What a process has beyond its files: root's powers, and a life longer than its parent's."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from builder.base.sandbox.libc import call_prctl

_SET_PDEATHSIG, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 1, 24, 38, 47
_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63


def die_with_parent(parent: int) -> None:
    """This process gets SIGKILL when its parent ends, and at once if that is no longer ``parent``."""
    if sys.platform == "linux":
        call_prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def drop_capabilities() -> None:
    """No capability is left, root's neither, and no program that is run can bring one back. Raises OSError."""
    if sys.platform != "linux":
        return
    call_prctl(_SET_NO_NEW_PRIVS, 1)
    for capability in range(_LAST_CAPABILITY + 1):
        with contextlib.suppress(OSError):  # unknown to this kernel, or not root's to give up
            call_prctl(_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):  # before Linux 4.3 there are none
        call_prctl(_CAP_AMBIENT, _CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(ctypes.byref(header), ctypes.byref(nothing)):
        raise OSError(ctypes.get_errno(), "capset")


def prefer_oom_kill() -> None:
    """Where memory runs out, the kernel ends this process before any other."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
