"""System calls through the C library that Python has no function for."""

from __future__ import annotations

import ctypes
import os
from typing import Any


def call_prctl(option: int, *arguments: int) -> None:
    """Call prctl. Raises OSError."""
    _call_function("prctl", ctypes.c_int, option, *arguments, *([0] * (4 - len(arguments))))


def call_syscall(number: int, *arguments: object) -> int:
    """Return the result of a system call with integers and ctypes' pointers as arguments. Raises OSError."""
    return _call_function("syscall", ctypes.c_long, number, *arguments)


def _call_function(function: str, result: Any, *arguments: object) -> int:
    function_ = getattr(ctypes.CDLL(None, use_errno=True), function, None)
    if function_ is None:
        raise OSError(0, f"this system's C library has no {function}")
    function_.restype = result
    value: int = function_(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return value
