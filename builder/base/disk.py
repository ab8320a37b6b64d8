"""Errors of the disk, converted to an error that names the folder and the next step."""

from __future__ import annotations

import errno
import getpass
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.base.commands import CLEANING
from builder.base.errors import ColdforgeError, DiskError

_FULL = f"Free some space there ({CLEANING} all that builds keep), then run the same command again."

_FAULTS = {
    errno.ENOSPC: ("no space is left for {place} ({free} free)", _FULL),
    errno.EDQUOT: ("your disk quota is used up at {place} ({free} free)", _FULL),
    errno.EROFS: ("{place} is on a read-only file system", "Work in a checkout on a file system that can be written."),
    errno.EACCES: (
        "{user} may not use {place}",
        "`ls -ld {folder}` says whose it is: a build by another user, such as root, may have made it. Give it to "
        "{user}, or delete it; then run the same command again.",
    ),
    errno.EFBIG: (
        "a file in {place} would be larger than its file system or `ulimit -f` allows",
        "Raise the limit with `ulimit -f unlimited`, then run the same command again.",
    ),
    errno.EMFILE: (
        "too many files are open in this process (at {place}; the limit is {files})",
        "Raise the limit with `ulimit -n 4096`, then run the same command again.",
    ),
    errno.ENFILE: (
        "too many files are open on this machine (at {place})",
        "End other programs, or raise `sysctl fs.file-max`; then run the same command again.",
    ),
    errno.EIO: ("the disk of {place} fails", "Look into the system's log (`dmesg`), and at the disk's health."),
}
_FAULTS[errno.EPERM] = _FAULTS[errno.EACCES]
"""The meaning of each error number, and the next step."""

_SAID = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EIO)
_WORDS = {os.strerror(number): number for number in _SAID} | {
    "NoSpaceLeft": errno.ENOSPC,
    "DiskQuota": errno.EDQUOT,
    "ReadOnlyFileSystem": errno.EROFS,
    "ProcessFdQuotaExceeded": errno.EMFILE,
    "SystemFdQuotaExceeded": errno.ENFILE,
}
"""The names of these errors in other programs' messages: those of the C library, and zig's."""

_NOTHING, _LITTLE = 64 << 10, 16 << 20
"""Bytes of free space below which the disk is taken for full: after an error without a reason, and after a program
that ended without a message, whose files may be deleted already."""

SAID_NOTHING = "and said nothing"
"""A part of the error's message for such a program."""


def disk_error(error: BaseException, folder: Path) -> DiskError | None:
    """Return the DiskError that ``error`` stands for while ``folder`` was written, or None for another kind of error.

    The messages of programs that a build runs, and of some libraries, are searched for errors of the disk, too.
    """
    if isinstance(error, DiskError):
        return error
    number = error.errno if isinstance(error, OSError) else None
    text = "" if number in _FAULTS else str(error).strip()
    if number not in _FAULTS:
        number = next((number for words, number in _WORDS.items() if words in text), None)
    if number is None and isinstance(error, OSError | ColdforgeError):
        number = errno.ENOSPC if _count_free_bytes(folder) < (_LITTLE if SAID_NOTHING in text else _NOTHING) else None
    if number is None:
        return None
    place = _find_file_name(error) or folder
    words = {
        "place": place,
        "folder": _find_existing_folder(place),
        "free": f"{_count_free_bytes(place) / 1e6:,.1f} MB",
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "user": _get_user_name(),
    }
    what, step = _FAULTS[number]
    also = f"\n{text[-1000:]}" if text else ""
    return DiskError(f"{what.format(**words)}. {step.format(**words)} The last good result is unchanged.{also}")


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Convert errors of the disk while the block writes below ``folder`` to a DiskError; others pass through."""
    try:
        yield
    except Exception as error:
        converted = disk_error(error, folder)
        if converted is None or converted is error:
            raise
        raise converted from error


def _find_file_name(error: BaseException) -> Path | None:
    """Return the absolute file name in an OSError, if it has one; names relative to an open folder do not count."""
    names = [getattr(error, "filename2", None), getattr(error, "filename", None)]
    paths = [Path(os.fsdecode(name)) for name in names if isinstance(name, str | bytes | os.PathLike)]
    return next((path for path in paths if path.is_absolute()), None)


def _find_existing_folder(path: Path) -> Path:
    """Return the nearest existing folder at or above ``path``."""
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))


def _count_free_bytes(path: Path) -> int:
    """Return the bytes that this user can still write to the file system of ``path``."""
    try:
        about = os.statvfs(_find_existing_folder(path))
    except OSError:
        return 1 << 62
    return about.f_bavail * about.f_frsize


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        return f"user {os.getuid()}"
