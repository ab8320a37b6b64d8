"""A seccomp filter, with which the kernel refuses a list of system calls.

Sources: ``include/uapi/linux/{seccomp,filter,audit}.h`` and https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

from builder.base.sandbox.libc import call_syscall

LAST = 469
"""The last known number (file_setattr, Linux 6.17): later calls do not exist for a job. x86-64's
second set of numbers (x32) lies above as well."""

_DENIED: dict[str, tuple[int | None, int | None]] = {
    # Sockets of any kind, because Landlock does not cover pathname sockets, such as Docker's. A pair of streams is
    # allowed, but no call that takes an address or passes a descriptor.
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # Programs and processes, which a job does not start; threads are allowed.
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
    # Other processes.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Attributes of files, which Landlock lets their owner change, and links to other places.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "file_setattr": (469, 469), "truncate": (76, 45),
    "symlink": (88, None), "symlinkat": (266, 36), "link": (86, None), "linkat": (265, 37),
    "mknod": (133, None), "mknodat": (259, 33),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # Information that Landlock does not hide: which files are used, and the mounts.
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "statmount": (457, 457), "listmount": (458, 458),
    # Kernel interfaces that are open to anyone and have been exploited before.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "unshare": (272, 97), "setns": (308, 268), "personality": (135, 92), "modify_ldt": (154, None),
    # Calls that only root may make.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
}  # fmt: skip
"""Calls that fail with EPERM, by name: the numbers on x86-64 and on aarch64, or None if there is no such call."""

_CLONE3 = 435
_CLONE, _FCNTL, _IOCTL, KILL, _TGKILL = (56, 220), (72, 25), (16, 29), (62, 129), (234, 131)
_PRCTL, _SOCKETPAIR, _SENDTO = (157, 167), (53, 199), (44, 206)
_OF_ITSELF = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
}  # fmt: skip
"""Calls that are allowed with 0 or the job's own process as the first argument, as others are the user's."""

_CLONE_THREAD = 0x10000
_SET_PDEATHSIG = 1
"""The option of prctl with which a job could outlive the server."""
UNIX, _STREAM, _KIND_OF_SOCKET = 1, 1, 0xF
"""AF_UNIX, SOCK_STREAM, and the bits of a socket's type that are not flags."""
_FILE_EVENTS = (8, 15, 1024, 1026)
"""fcntl's F_SETOWN and F_SETOWN_EX (who gets a file's signals, which may be SIGKILL), F_SETLEASE (others wait to open
the file) and F_NOTIFY."""
_TERMINAL_AND_FLAGS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Allowed requests of ioctl: TCGETS (isatty), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""


_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""AUDIT_ARCH, and the column in ``_DENIED``."""
_SECCOMP = (317, 277)
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2

_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _FIFTH = 0, 4, 16, 24, 48
"""Offsets in struct seccomp_data, in bytes: the last three are those of the arguments' lower halves."""
_UPPER = 4  # This is the offset of an argument's upper half from the lower one.

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
    """Forbid this thread, and all that it starts, the calls in ``_DENIED``.

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
    allow, deny, unknown = (_RETURN, 0, 0, _ALLOW), _make_refusal(errno.EPERM), _make_refusal(errno.ENOSYS)
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, LAST + 1),
        unknown,
        (_JUMP_EQUAL, 0, 1, _CLONE3),  # A filter cannot read its flags; glibc then uses clone.
        unknown,
    ]
    for name, numbers in _DENIED.items():
        if (number := numbers[column]) is not None and not (runs_program and name == "execve"):
            instructions += [(_JUMP_EQUAL, 0, 1, number), deny]
    to_itself = [(_JUMP_EQUAL, 1, 0, pid), deny, allow]
    is_zero = [(_JUMP_EQUAL, 1, 0, 0), deny]
    requests = [(_JUMP_EQUAL, len(_TERMINAL_AND_FLAGS) - i, 0, c) for i, c in enumerate(_TERMINAL_AND_FLAGS)]
    checks: list[tuple[tuple[int, int], int, list[Instruction]]] = [
        (KILL, _FIRST, to_itself),
        (_TGKILL, _FIRST, to_itself),
        (_CLONE, _FIRST, [(_JUMP_ANY_BIT, 1, 0, _CLONE_THREAD), deny, allow]),
        (_PRCTL, _FIRST, [(_JUMP_EQUAL, 0, 1, _SET_PDEATHSIG), deny]),
        *((numbers, _FIRST, [(_JUMP_EQUAL, 2, 0, 0), *to_itself]) for numbers in _OF_ITSELF.values()),
        (_SOCKETPAIR, _FIRST, [(_JUMP_EQUAL, 1, 0, UNIX), deny]),
        (_SOCKETPAIR, _SECOND, [(_AND, 0, 0, _KIND_OF_SOCKET), (_JUMP_EQUAL, 1, 0, _STREAM), deny, allow]),
        (_SENDTO, _FIFTH, is_zero),
        (_SENDTO, _FIFTH + _UPPER, is_zero),
        *((_FCNTL, _SECOND, [(_JUMP_EQUAL, 0, 1, command), deny]) for command in _FILE_EVENTS),
        (_IOCTL, _SECOND, [*requests, _make_refusal(errno.ENOTTY), allow]),
    ]
    for numbers, argument, then in checks:
        inner = [(_LOAD, 0, 0, argument), *then, (_LOAD, 0, 0, _NUMBER)]
        instructions += [(_JUMP_EQUAL, 0, len(inner), numbers[column]), *inner]
    return [*instructions, allow]


def _make_refusal(number: int) -> Instruction:
    return _RETURN, 0, 0, _ERRNO | number
