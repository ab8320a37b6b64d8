"""What a hostile model's code would try: functions that a sandboxed child runs, with real system calls."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_X86 = os.uname().machine == "x86_64"
_PTRACE, _KEYCTL, _UNSHARE = (101, 250, 272) if _X86 else (117, 219, 97)
_BPF, _USERFAULTFD, _PERF_EVENT_OPEN = (321, 323, 298) if _X86 else (280, 282, 241)
_FANOTIFY_INIT, _INOTIFY_INIT1, _SCHED_SETATTR, _STATMOUNT = (300, 294, 314, 457) if _X86 else (262, 26, 274, 457)
_IO_URING_SETUP, _NEWER_THAN_ALL = 425, 600
_PRCTL, _SET_PDEATHSIG = 157 if _X86 else 167, 1
_MODIFY_LDT = 154 if _X86 else _NEWER_THAN_ALL  # only x86 has it
_ATTACH, _CLONE_NEWUSER = 16, 0x10000000


def attempt(outside: str, abstract: str, port: int, datagrams: str) -> dict[str, str]:
    """Each attack and the name of the error that it met, or ``allowed``.

    ``outside``: a folder with ``.aws/credentials`` and ``precious``; ``abstract``: a socket that listens, and TCP's
    ``port``; ``datagrams``: the path of a socket that takes datagrams, as the journal's does.
    """
    return {name: _tried(attack) for name, attack in attacks(Path(outside), abstract, port, datagrams).items()}


def attacks(outside: Path, abstract: str, port: int, datagrams: str) -> Mapping[str, Callable[[], object]]:
    parent = os.getppid()
    itself = Path("/proc/self")
    return {
        "read a secret": (outside / ".aws" / "credentials").read_bytes,
        "list a home folder": lambda: list(outside.iterdir()),
        "read another's environment": Path(f"/proc/{parent}/environ").read_bytes,
        "read another's memory": lambda: Path(f"/proc/{parent}/mem").open("rb"),
        "write a file": lambda: (outside / "new").write_text("x"),
        "append to a file": lambda: (outside / "precious").open("a"),
        "empty a file": lambda: os.truncate(outside / "precious", 0),
        "empty a file by opening it": lambda: os.open(outside / "precious", os.O_RDONLY | os.O_TRUNC),
        "delete a file": lambda: (outside / "precious").unlink(),
        "rename a file": lambda: (outside / "precious").rename(outside / "other"),
        "move a file out": _moved_out(outside),
        "change a mode": lambda: (outside / "precious").chmod(0o4777),
        "change a time": lambda: os.utime(outside / "precious", (0, 0)),
        "make a folder": lambda: (outside / "folder").mkdir(),
        "leave a symbolic link": lambda: Path("link").symlink_to(outside / ".aws" / "credentials"),
        "leave a hard link": lambda: Path("hard").hardlink_to(outside / "precious"),
        "leave a pipe": lambda: os.mkfifo("pipe"),
        "connect by TCP": lambda: socket.create_connection(("127.0.0.1", port), 5),
        "send by UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "open a raw socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "connect to an abstract socket": lambda: _connect(f"\0{abstract}"),
        "connect to Docker": lambda: _connect("/var/run/docker.sock"),
        "send a datagram from a pair": lambda: _pair(socket.SOCK_DGRAM).sendto(b"x", datagrams),
        "connect a pair of datagrams": lambda: _pair(socket.SOCK_DGRAM).connect(datagrams),
        "a pair of packets": lambda: _pair(socket.SOCK_SEQPACKET),
        "send to an address from a pair of streams": lambda: _pair(socket.SOCK_STREAM).sendto(b"x", datagrams),
        "send a message to an address": lambda: _pair(socket.SOCK_STREAM).sendmsg([b"x"], [], 0, datagrams),
        "pass a descriptor on": lambda: socket.send_fds(_pair(socket.SOCK_STREAM), [b"x"], [1]),
        "connect a pair of streams": lambda: _pair(socket.SOCK_STREAM).connect(datagrams),
        "bind a pair": lambda: _pair(socket.SOCK_STREAM).bind("mine-as-well"),
        "listen": lambda: _pair(socket.SOCK_STREAM).listen(),
        "accept": lambda: _pair(socket.SOCK_STREAM).accept(),
        "watch a folder": lambda: _syscall(_INOTIFY_INIT1, 0),
        "watch a file system": lambda: _syscall(_FANOTIFY_INIT, 0x600, 0),
        "be told of a folder's files": lambda: fcntl.fcntl(os.open(".", os.O_RDONLY), fcntl.F_NOTIFY, 2),
        "lease a file": lambda: fcntl.fcntl(os.open("mine", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK),
        "list connections": (itself / "net" / "tcp").read_bytes,
        "list connections of a thread": (itself / "task" / str(os.getpid()) / "net" / "unix").read_bytes,
        "list mounts": (itself / "mountinfo").read_bytes,
        "list mounts of a thread": (itself / "task" / str(os.getpid()) / "mounts").read_bytes,
        "list mounts by a call": lambda: _syscall(_STATMOUNT, 0, 0, 0, 0),
        "bind the builder to a processor": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
        "schedule the builder": lambda: os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0)),
        "schedule the builder as before": lambda: os.sched_setparam(parent, os.sched_param(0)),
        "schedule the builder anew": lambda: _syscall(_SCHED_SETATTR, parent, ctypes.create_string_buffer(48), 0),
        "slow the builder down": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        "run a program": lambda: os.execv("/bin/true", ["true"]),
        "run a set-user-ID program": lambda: os.execv("/bin/su", ["su", "-c", "true"]),
        "spawn a program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "fork": _fork,
        "signal the builder": lambda: os.kill(parent, 0),
        "signal everyone": lambda: os.kill(-1, 0),
        "limit the builder": lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0)),
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)),
        "trace the builder": lambda: _syscall(_PTRACE, _ATTACH, parent, 0, 0),
        "a namespace": lambda: _syscall(_UNSHARE, _CLONE_NEWUSER),
        "bpf": lambda: _syscall(_BPF, 0, 0, 0),
        "keyctl": lambda: _syscall(_KEYCTL, 0, 0, 0),
        "userfaultfd": lambda: _syscall(_USERFAULTFD, 1),
        "perf_event_open": lambda: _syscall(_PERF_EVENT_OPEN, 0, 0, -1, -1, 0),
        "io_uring": lambda: _syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120)),
        "a segment of its own": lambda: _syscall(_MODIFY_LDT, 0, 0, 0),
        "outlive the server": lambda: _syscall(_PRCTL, _SET_PDEATHSIG, 0, 0, 0, 0),
        "a call that is not known": lambda: _syscall(_NEWER_THAN_ALL),
    }


def state() -> dict[str, object]:
    """What a job has besides files."""
    lines = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return {
        "capabilities": {lines[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16},
        "no new privileges": lines["NoNewPrivs"],
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())[:4],
        "environment": sorted(os.environ),
        "first environment": [e.split("=")[0] for e in Path("/proc/self/environ").read_text().split("\0")[:-1]],
        "home": os.environ["HOME"],
    }


def use_what_is_its_own() -> str:
    """What libraries do with a pair of streams, and a process with its own processors."""
    one, other = socket.socketpair()
    one.send(b"own")
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
    return other.recv(3).decode()


def read_again(path: str, pause: str) -> list[str]:
    """What ``path`` has now, and once there is no file ``pause`` any more, which is made here."""
    first = Path(path).read_text()
    Path(pause).touch()
    while Path(pause).exists():
        time.sleep(0.01)
    return [first, Path(path).read_text()]


def take_memory(size: int) -> int:
    held = []
    while len(held) * (64 << 20) < size:
        held.append(bytearray(64 << 20))
    return len(held)


def run_for_ever() -> None:
    Path("pid").write_text(str(os.getpid()))
    while True:
        pass


def sleep_for_ever() -> None:
    Path("pid").write_text(str(os.getpid()))
    time.sleep(1e6)


def leave_a_link(target: str) -> None:
    Path("graph.pb").symlink_to(target)


def crash() -> None:
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def fail() -> None:
    raise RuntimeError("the reason\x1b[2J")


def end_without_an_answer() -> None:
    os._exit(0)


def answer(raw: bytes) -> None:
    """Not by way of Python's json: whatever a process that was taken over may write."""
    os.write(3, raw)
    os._exit(0)


def talk(size: int) -> None:
    sys.stdout.write("x" * size + "\x1b]0;owned\x07 the end\n")


def _tried(attack: Callable[[], object]) -> str:
    try:
        attack()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except ValueError:  # setrlimit's, for EPERM
        return "EPERM"
    return "allowed"


def _moved_out(outside: Path) -> Callable[[], object]:
    Path("mine").write_text("mine")
    return lambda: Path("mine").rename(outside / "mine")


def _connect(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(address)


def _pair(kind: int) -> socket.socket:
    return socket.socketpair(socket.AF_UNIX, kind)[0]


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _syscall(number: int, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(ctypes.c_long(number), *words) < 0:
        raise OSError(ctypes.get_errno(), "syscall")


def i386_call() -> None:
    """``int 0x80``: getpid by the 32-bit table, which a filter of 64-bit numbers does not know."""
    import mmap

    code = bytes([0xB8]) + struct.pack("<I", 20) + bytes([0xCD, 0x80, 0xC3])  # mov eax, 20; int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
