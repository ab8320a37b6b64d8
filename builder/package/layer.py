"""Zip files that depend on a folder's content alone, not on the machine or the time.

A layer whose bytes change at every build becomes a new layer version at every deploy. Names are sorted,
times and modes fixed; the bytes then depend on the content and on zlib alone.
"""

from __future__ import annotations

import os
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from builder.base.cache import KEY_FILE
from builder.base.errors import EnvironmentSetupError
from builder.package.lambda_limits import Component

EPOCH = "SOURCE_DATE_EPOCH"
"""Environment variable for the time of every file in the zip, and the statement's parameter of that name."""

_COMPRESSION_LEVEL = 6
_FIRST = 315_532_800  # 1980-01-01 is the earliest time of a zip.
_LAST = 4_354_819_198  # 2107-12-31 23:59:58 is the latest.
_UNIX = 3
_FILE, _PROGRAM = 0o100644, 0o100755


def read_epoch(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return SOURCE_DATE_EPOCH in seconds, None if unset. Raises EnvironmentSetupError for an invalid one."""
    text = environment.get(EPOCH, "").strip()
    try:
        return int(text) if text else None
    except ValueError as error:
        raise EnvironmentSetupError(f"{EPOCH} is {text!r}: set it to whole seconds since 1970, or unset it.") from error


def source_date_epoch(environment: Mapping[str, str] = os.environ) -> int:
    """Return the time for every file, in seconds: SOURCE_DATE_EPOCH, or the earliest that a zip can have.

    Raises as ``read_epoch`` does.
    """
    epoch = read_epoch(environment)
    return _FIRST if epoch is None else epoch


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """Return (name with slashes, path) of each file below ``folder``, in the zip's order, without a stage's key."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != KEY_FILE)
    return sorted((p.relative_to(folder).as_posix(), p) for p in files)


def write_readable(path: Path, text: str) -> None:
    """Write a file of a bundle, which everybody may read, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)


def write_zip(folder: Path, archive: Path | IO[bytes], *, epoch: int = _FIRST) -> None:
    """Zip the files of ``folder``, with names relative to it. Empty folders are left out.

    Links are followed. Shared objects and files in ``bin/`` get mode 0755, all others 0644, whatever the umask made of
    them here.
    """
    _write_entries(files_of(folder), archive, epoch)


def _write_entries(files: list[tuple[str, Path]], archive: Path | IO[bytes], epoch: int) -> None:
    moment = time.gmtime(min(max(epoch, _FIRST), _LAST))[:6]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as out:
        for name, path in files:
            entry = zipfile.ZipInfo(name, moment)
            entry.create_system = _UNIX
            entry.external_attr = (_PROGRAM if _is_program(name) else _FILE) << 16
            out.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, _COMPRESSION_LEVEL)


def _is_program(name: str) -> bool:
    *folders, file = name.split("/")
    return "bin" in folders or file.endswith(".so") or ".so." in file


def measure_zip(name: str, folder: Path, *, layer: bool = True, bytecode: bool = True) -> Component:
    """Return the sizes of ``folder`` as a zip of its own, which is not kept.

    ``bytecode`` False leaves out ``__pycache__``, for a folder of sources that is zipped without it. ``sam build``
    makes its own zip with the same algorithm: they differ by a few bytes per file.
    """
    files = [(n, p) for n, p in files_of(folder) if bytecode or "__pycache__" not in n.split("/")]
    with tempfile.TemporaryFile() as archive:
        _write_entries(files, archive, _FIRST)
        return Component(name, sum(path.stat().st_size for _, path in files), archive.tell(), layer)
