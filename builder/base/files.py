"""Files and folders that appear whole or not at all, whatever stops the process, and for one writer at a time.

Output is written under another name beside its target, flushed to the disk (fsync), and renamed. Readers of the target
find the old content or the new. A lock, the file ``.<name>.lock`` beside the target, keeps other processes from writing
the same meanwhile. It ends with the process that holds it, so its holder may delete the leftovers of others, whose
names begin with ``<name>.tmp-``: no process can still use them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from builder.base.disk import disk_errors

Say = Callable[[str], object]
"""A function that shows one line while this process waits for another."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}


def show_nothing(_: str) -> None:
    """Show nothing."""


@contextmanager
def lock_target(target: Path, say: Say = show_nothing) -> Iterator[None]:
    """Keep other processes out of such a block for ``target``. The lock is not reentrant.

    Leftovers of killed processes are deleted when the block begins. Raises DiskError.
    """
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        path = _lock_of(target)
        file = _acquire_lock(path, target, say)
    try:
        with disk_errors(target.parent):
            with suppress(OSError):  # The number is optional, and a full disk cannot take it.
                os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
            _remove_leftovers(target)
        yield
    finally:
        try:
            with suppress(OSError):
                path.unlink()  # It is deleted while locked, so that a waiting process sees this and makes a new one.
        finally:
            os.close(file)


@contextmanager
def replace_folder(target: Path, say: Say = show_nothing) -> Iterator[Path]:
    """Yield an empty folder beside ``target``, which replaces it when the block ends without an error.

    When the block raises, or the process is killed, ``target`` stays as it was. Readers of ``target`` see the old
    content or the new, never a mixture, and on Linux never nothing. Raises DiskError for errors of the disk.
    """
    with lock_target(target, say), replace_locked_folder(target) as fresh:
        yield fresh


@contextmanager
def replace_locked_folder(target: Path) -> Iterator[Path]:
    """Do as ``replace_folder`` inside a ``lock_target`` block for ``target``."""
    with disk_errors(target.parent), _make_scratch(target) as fresh:
        yield fresh
        # Lambda's user must be able to read the folder, whatever the umask is here.
        for folder in (fresh, *(p for p in fresh.rglob("*") if p.is_dir())):
            folder.chmod(0o755)
        _sync_folder(fresh)
        swap_folders(fresh, target)
        _sync_one(target.parent)


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """Yield a folder beside ``target`` that is deleted when the block ends, or the next one for ``target`` begins."""
    with lock_target(target), disk_errors(target.parent), _make_scratch(target) as fresh:
        yield fresh


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yield a path beside ``target``; the file written there replaces it when the block ends. Raises DiskError.

    If ``target`` is a link, the file that it leads to is replaced. A device or a pipe is written to as it is.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        with disk_errors(target.parent):
            yield target
        return
    with lock_target(target), disk_errors(target.parent):
        fresh = target.with_name(f"{target.name}.tmp-{os.getpid()}")
        try:
            yield fresh
            _sync_one(fresh)
            fresh.replace(target)
            _sync_one(target.parent)
        finally:
            fresh.unlink(missing_ok=True)


def write_file(target: Path, content: str | bytes) -> None:
    """Write ``content`` (UTF-8) to ``target``, all of it or nothing. Raises DiskError."""
    with replace_file(target) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        if target.is_file():
            shutil.copymode(target, fresh)


def _sync_folder(folder: Path) -> None:
    """Flush all files below ``folder`` to the disk, and the folders themselves last."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                _sync_one(path)
        _sync_one(Path(parent))


def swap_folders(fresh: Path, target: Path) -> None:
    """Move the folder ``fresh`` to ``target`` and delete the old content. Both must be in one file system."""
    if not os.path.lexists(target):
        fresh.rename(target)
    elif not _exchange_paths(fresh, target):
        aside = _aside_path(target)
        try:
            target.rename(aside)
            fresh.rename(target)
        except BaseException:
            if not os.path.lexists(target):
                aside.rename(target)
            raise
        _remove_path(aside)
    _remove_path(fresh)


def _remove_path(path: Path) -> None:
    """Delete a file, a link or a folder with its content, as far as that is possible."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _acquire_lock(path: Path, target: Path, say: Say) -> int:
    """Return a descriptor of the file ``path``, locked."""
    waits = False
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    say(f"waiting for {_describe_holder(file)}, which is working on {target}")
                    waits = True
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                say(f"{target.parent} is on a file system without locks: run one build at a time there")
            if os.path.lexists(path) and os.path.samestat(os.fstat(file), path.lstat()):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # Its holder has deleted it.


def _describe_holder(file: int) -> str:
    number = os.pread(file, 20, 0).decode(errors="replace").strip()
    return f"process {number}" if number.isdigit() else "another process"


def is_settled(target: Path) -> bool:
    """Return whether no process writes ``target`` now, and no killed process left anything beside it."""
    return not _list_leftovers(target) and not os.path.lexists(_lock_of(target))


def _list_leftovers(target: Path) -> list[Path]:
    return [path for path in target.parent.iterdir() if path.name.startswith(f"{target.name}.tmp-")]


def _remove_leftovers(target: Path) -> None:
    """Delete leftovers of processes that were killed while they held the lock."""
    aside = _aside_path(target)
    if os.path.lexists(aside) and not os.path.lexists(target):
        aside.rename(target)  # A process was killed between the two renames of ``swap_folders``.
    for path in _list_leftovers(target):
        _remove_path(path)


@contextmanager
def _make_scratch(target: Path) -> Iterator[Path]:
    fresh = Path(tempfile.mkdtemp(prefix=f"{target.name}.tmp-", dir=target.parent))
    try:
        yield fresh
    finally:
        _remove_path(fresh)


def _lock_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


def _aside_path(target: Path) -> Path:
    """Return the path for the old content on file systems that cannot exchange two folders."""
    return target.with_name(f"{target.name}.tmp-old")


def _sync_one(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # The file system may not support it.
            raise
    finally:
        os.close(file)


def _exchange_paths(a: Path, b: Path) -> bool:
    """Exchange two paths atomically, and return whether the system and the file system can."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    result: int = rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE))
    return result == 0
