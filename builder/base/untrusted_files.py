"""Reads files from an untrusted process: only regular ones, without following links.

A link in a folder that a hostile process may write leads to any place. So a path is opened folder by folder, each
without following a link, and the checked file is the one that is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from builder.base.errors import SandboxError

_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def has_entry(root: Path, name: str) -> bool:
    """Return whether ``name`` (with slashes) exists below ``root``. Raises SandboxError for a link on the way."""
    try:
        with _folder_of(root, name) as (folder, last):
            os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def open_regular(root: Path, name: str) -> Iterator[IO[bytes]]:
    """Open the file ``name`` (with slashes) below the folder ``root`` for reading; ``root`` itself is trusted.

    Raises SandboxError if it, or a folder on the way, is a link, or if it is not a regular file or has another name
    too, and FileNotFoundError.
    """
    with _folder_of(root, name) as (folder, last):
        _require_regular(os.stat(last, dir_fd=folder, follow_symlinks=False), name)  # A device must not be opened.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(last, flags, dir_fd=folder), "rb") as file:
            _require_regular(os.fstat(file.fileno()), name)
            yield file


def copy_regular(root: Path, name: str, target: Path, limit: int) -> int:
    """Copy the file ``name`` below ``root`` to ``target`` and return its size, at most ``limit`` bytes.

    Folders on the way to ``target`` are made; its mode is 0644. Raises as ``open_regular``, and SandboxError for a
    larger file.
    """
    with open_regular(root, name) as source:
        if os.fstat(source.fileno()).st_size > limit:
            raise SandboxError(f"{name} is larger than a build's result can be (more than {limit:,} bytes left).")
        target.parent.mkdir(parents=True, exist_ok=True)
        copied = 0
        with target.open("xb") as file:
            while chunk := source.read(min(_CHUNK, limit - copied)):
                file.write(chunk)
                copied += len(chunk)
        target.chmod(0o644)
    return copied


def require_regular(root: Path) -> None:
    """Raise SandboxError unless all entries below ``root`` are folders and regular files with one name each."""
    for folder, folders, files in os.walk(root, followlinks=False):
        for name in (*folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                _require_regular(status, str(path.relative_to(root)))


def make_folder(root: Path, name: str) -> Path:
    """Return the folder ``name`` (with slashes) below ``root``, made if missing. Raises SandboxError for a link."""
    path = root
    for part in PurePosixPath(name).parts:
        path = path / part
        try:
            path.mkdir()
        except FileExistsError:
            if not stat.S_ISDIR(mode := path.lstat().st_mode):
                raise SandboxError(
                    f"{path} is {_name_file_type(mode)}, not a folder: an earlier build put it there."
                ) from None
    return path


@contextmanager
def _folder_of(root: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yield the descriptor of the folder that contains ``name``, and its last part."""
    *folders, last = PurePosixPath(name).parts
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    try:
        for part in folders:
            status = os.stat(part, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                raise SandboxError(f"{name}: {part} is {_name_file_type(status.st_mode)}, not a folder.")
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, last
    finally:
        os.close(descriptor)


def _require_regular(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SandboxError(f"{name} is {_name_file_type(status.st_mode)}; a build leaves regular files only.")
    if status.st_nlink > 1:  # It is 0 if the file was replaced meanwhile.
        raise SandboxError(f"{name} has a hard link elsewhere; a build's files have none.")


def _name_file_type(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "a file")
