"""A seccomp filter, with which the kernel refuses a list of system calls.

Sources: ``include/uapi/linux/{seccomp,filter,audit}.h`` and https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Sequence

from builder.base.sandbox import forbidden_calls
from builder.base.sandbox.libc import call_syscall

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH, and the column in ``forbidden_calls``."""
_SECCOMP = (317, 277)
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2

_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # These are offsets in struct seccomp_data.
_LOWER, _UPPER = 0, 4  # These are offsets of an argument's halves in bytes.

Instruction = tuple[int, int, int, int]
"""An instruction's code, the numbers of instructions to skip when true and when false, and its operand."""


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("true", ctypes.c_uint8), ("false", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Filter)))


def has_seccomp() -> bool:
    """Return whether this kernel has filters, and the processor's system calls are known."""
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES:
        return False
    action = ctypes.c_uint32(_KILL)
    try:
        call_syscall(_SECCOMP[_ARCHITECTURES[platform.machine()][1]], _GET_ACTION_AVAIL, 0, ctypes.byref(action))
    except OSError:
        return False
    return True


def restrict_calls(*, runs_program: bool = False) -> None:
    """Forbid this thread, and all that it starts, the calls in ``forbidden_calls``.

    ``runs_program``: whether it may execute another program, within Landlock's rules. A call of another architecture
    kills the process. PR_SET_NO_NEW_PRIVS must be set. Raises OSError.
    """
    machine = platform.machine()
    instructions = make_filter(machine, os.getpid(), runs_program)
    array = (_Filter * len(instructions))(*(_Filter(*instruction) for instruction in instructions))
    program = _Program(len(instructions), array)
    call_syscall(_SECCOMP[_ARCHITECTURES[machine][1]], _SET_MODE_FILTER, 0, ctypes.byref(program))


def make_filter(machine: str, pid: int, runs_program: bool = False) -> list[Instruction]:
    """Return the filter for ``machine``; signals may go to the process ``pid`` alone.

    ``runs_program`` is as for ``restrict_calls``.
    """
    architecture, column = _ARCHITECTURES[machine]
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, forbidden_calls.LAST + 1),
        _make_refusal(errno.ENOSYS),
        (_JUMP_EQUAL, 0, 1, forbidden_calls.CLONE3),  # A filter cannot read its flags; glibc then uses clone.
        _make_refusal(errno.ENOSYS),
    ]
    for name, numbers in forbidden_calls.DENIED.items():
        if (number := numbers[column]) is not None and not (runs_program and name == "execve"):
            instructions += [(_JUMP_EQUAL, 0, 1, number), _make_refusal(errno.EPERM)]
    allow = (_RETURN, 0, 0, _ALLOW)
    for number in (forbidden_calls.KILL[column], forbidden_calls.TGKILL[column]):
        instructions += _check_argument(number, 0, [(_JUMP_EQUAL, 1, 0, pid), _make_refusal(errno.EPERM), allow])
    instructions += _check_argument(
        forbidden_calls.CLONE[column],
        0,
        [(_JUMP_ANY_BIT, 1, 0, forbidden_calls.CLONE_THREAD), _make_refusal(errno.EPERM), allow],
    )
    instructions += _check_argument(
        forbidden_calls.PRCTL[column],
        0,
        [(_JUMP_EQUAL, 0, 1, forbidden_calls.SET_PDEATHSIG), _make_refusal(errno.EPERM)],
    )
    itself = [(_JUMP_EQUAL, 2, 0, 0), (_JUMP_EQUAL, 1, 0, pid), _make_refusal(errno.EPERM), allow]
    for numbers in forbidden_calls.OF_ITSELF.values():
        instructions += _check_argument(numbers[column], 0, itself)
    instructions += _check_argument(
        forbidden_calls.SOCKETPAIR[column], 0, [(_JUMP_EQUAL, 1, 0, forbidden_calls.UNIX), _make_refusal(errno.EPERM)]
    )
    kind = [
        (_AND, 0, 0, forbidden_calls.KIND_OF_SOCKET),
        (_JUMP_EQUAL, 1, 0, forbidden_calls.STREAM),
        _make_refusal(errno.EPERM),
        allow,
    ]
    instructions += _check_argument(forbidden_calls.SOCKETPAIR[column], 1, kind)
    for half in (_LOWER, _UPPER):
        instructions += _check_argument(
            forbidden_calls.SENDTO[column], 4, [(_JUMP_EQUAL, 1, 0, 0), _make_refusal(errno.EPERM)], half
        )
    for command in forbidden_calls.FILE_EVENTS:
        instructions += _check_argument(
            forbidden_calls.FCNTL[column], 1, [(_JUMP_EQUAL, 0, 1, command), _make_refusal(errno.EPERM)]
        )
    checks = [
        (_JUMP_EQUAL, len(forbidden_calls.TERMINAL_AND_FLAGS) - i, 0, c)
        for i, c in enumerate(forbidden_calls.TERMINAL_AND_FLAGS)
    ]
    instructions += _check_argument(forbidden_calls.IOCTL[column], 1, [*checks, _make_refusal(errno.ENOTTY), allow])
    return [*instructions, allow]


def _make_refusal(number: int) -> Instruction:
    return _RETURN, 0, 0, _ERRNO | number


def _check_argument(number: int, argument: int, then: Sequence[Instruction], half: int = _LOWER) -> list[Instruction]:
    """Return instructions for the call ``number``: ``then`` on one half of the argument, and a reload of the number."""
    inner = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument + half), *then, (_LOAD, 0, 0, _NUMBER)]
    return [(_JUMP_EQUAL, 0, len(inner), number), *inner]
