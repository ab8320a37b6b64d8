"""Put a finished folder in the place of another in one step."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target``, which takes its place when the block ends well.

    When the block raises, or is interrupted, ``target`` stays as it was. Readers of ``target`` see the
    old content or the new, never a mixture, and on Linux never nothing.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{target.name}.tmp-", dir=target.parent))
    try:
        yield fresh
        # Whatever the umask is here, Lambda's user must be able to look inside.
        for folder in (fresh, *(p for p in fresh.rglob("*") if p.is_dir())):
            folder.chmod(0o755)
        swap(fresh, target)
    finally:
        _remove(fresh)


@contextmanager
def replacing_file(target: Path) -> Iterator[Path]:
    """A path beside ``target``; the file written there takes its place when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    try:
        yield fresh
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def swap(fresh: Path, target: Path) -> None:
    """Move ``fresh`` to ``target``; what was there is deleted. Both must be in one file system."""
    if not target.exists() and not target.is_symlink():
        fresh.rename(target)
    elif not _exchange(fresh, target):
        aside = Path(f"{fresh}.old")
        target.rename(aside)
        try:
            fresh.rename(target)
        except BaseException:
            aside.rename(target)
            raise
        _remove(aside)
    _remove(fresh)


def _exchange(a: Path, b: Path) -> bool:
    """Let two paths change places at once; False where the system or the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    result: int = rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE))
    return result == 0


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
