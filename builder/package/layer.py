"""Zip a folder so that the same content gives the same bytes, whoever zips it and when.

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
"""The environment's variable for the time of every file in the zip, and the statement's parameter that it becomes."""

COMPRESSION_LEVEL = 6
_FIRST = 315_532_800  # 1980-01-01: zip knows no earlier time
_LAST = 4_354_819_198  # 2107-12-31 23:59:58, and no later one
_UNIX = 3
_FILE, _PROGRAM = 0o100644, 0o100755


def read_epoch(environment: Mapping[str, str] = os.environ) -> int | None:
    """SOURCE_DATE_EPOCH in seconds, None where it is not set. Raises EnvironmentSetupError if it is no whole number."""
    text = environment.get(EPOCH, "").strip()
    try:
        return int(text) if text else None
    except ValueError as error:
        raise EnvironmentSetupError(f"{EPOCH} is {text!r}: set it to whole seconds since 1970, or unset it.") from error


def source_date_epoch(environment: Mapping[str, str] = os.environ) -> int:
    """The time to give every file, in seconds: SOURCE_DATE_EPOCH, or the earliest that zip has.

    Raises as ``read_epoch`` does.
    """
    given = read_epoch(environment)
    return _FIRST if given is None else given


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """(name with slashes, path) of each file below ``folder``, in the order of the zip, without a stage's key."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != KEY_FILE)
    return sorted((p.relative_to(folder).as_posix(), p) for p in files)


def write_readable(path: Path, text: str) -> None:
    """Write a file of a bundle, which everybody may read, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)


def write_zip(folder: Path, archive: Path | IO[bytes], *, epoch: int = _FIRST) -> None:
    """Zip the files of ``folder``, whose names become relative to it. Empty folders are left out.

    Links are followed. Shared objects and files in ``bin/`` get mode 0755, all others 0644, whatever
    the umask made of them here.
    """
    _write_entries(files_of(folder), archive, epoch)


def _write_entries(files: list[tuple[str, Path]], archive: Path | IO[bytes], epoch: int) -> None:
    moment = time.gmtime(min(max(epoch, _FIRST), _LAST))[:6]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as out:
        for name, path in files:
            entry = zipfile.ZipInfo(name, moment)
            entry.create_system = _UNIX
            entry.external_attr = (_PROGRAM if _is_program(name) else _FILE) << 16
            out.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, COMPRESSION_LEVEL)


def _is_program(name: str) -> bool:
    *folders, file = name.split("/")
    return "bin" in folders or file.endswith(".so") or ".so." in file


def measure_zip(name: str, folder: Path, *, layer: bool = True, bytecode: bool = True) -> Component:
    """The sizes of ``folder`` as a zip of its own; the zip itself is thrown away.

    ``bytecode`` False leaves out ``__pycache__``, for a folder of sources that is zipped without it.
    ``sam build`` zips on its own account, with the same algorithm: a few bytes a file apart.
    """
    files = [(n, p) for n, p in files_of(folder) if bytecode or "__pycache__" not in n.split("/")]
    with tempfile.TemporaryFile() as archive:
        _write_entries(files, archive, _FIRST)
        return Component(name, sum(path.stat().st_size for _, path in files), archive.tell(), layer)
