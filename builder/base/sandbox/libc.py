"""The C library's way into the kernel, for calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
from typing import Any


def call_prctl(option: int, *arguments: int) -> None:
    """Raises OSError."""
    _call_function("prctl", ctypes.c_int, option, *arguments, *([0] * (4 - len(arguments))))


def call_syscall(number: int, *arguments: object) -> int:
    """The result; arguments are whole numbers and what ctypes takes for a pointer. Raises OSError."""
    return _call_function("syscall", ctypes.c_long, number, *arguments)


def _call_function(function: str, result: Any, *arguments: object) -> int:
    known = getattr(ctypes.CDLL(None, use_errno=True), function, None)
    if known is None:
        raise OSError(0, f"this system's C library has no {function}")
    known.restype = result
    found: int = known(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return found
