"""Models among the files of a folder or an untrusted archive, which only unpacks to plain files within its folder.

Sizes are counted as bytes arrive; an archive's own sizes are not trusted.
"""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, cast

from builder.base.commands import did_you_mean
from builder.base.disk import disk_errors
from builder.base.errors import ImportModelError
from builder.base.escape import describe_error, escape_invisible
from builder.config import Format
from builder.config.rules import EXTENSIONS, FOLDERS, guess_files_format, guess_format
from builder.sources.transfer import Bounds

ITSELF = "."
"""Name of the folder itself."""

_DEEPEST, _LONGEST_NAME = 32, 255
_CHUNK = 1 << 18
_HEADERS = 1 << 20
"""Limit in bytes of the headers between two files of a tar."""
_DIRECTORY = 64 << 20
"""Limit in bytes of a zip's list of files."""
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)
"""Errors of the readers for bytes that are no archive; a disk's error has become a DiskError before."""


def safe_parts(name: str) -> list[str] | None:
    """Split a path that leads to below a folder; None for one that leads elsewhere, or is not valid everywhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        return None
    if len(parts) > _DEEPEST or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return None
    return parts


def find_models(names: Iterable[str]) -> dict[str, Format]:
    """Return the formats of the folders and files that are models by their names, sorted.

    The files in a SavedModel or a preset are no other models, and neither are the modules in a model of transformers.
    """
    paths, inside = [PurePosixPath(name) for name in names], defaultdict[PurePosixPath, set[str]](set)
    for path in paths:
        inside[path.parent].add(path.name)
    folders = {folder: form for folder, files in inside.items() if (form := guess_files_format(files))}
    models: dict[str, Format] = {}
    for path, form in [*folders.items(), *((path, guess_format(path.name)) for path in paths)]:
        if form and not {"saved_model", "keras_hub", form} & {folders.get(parent) for parent in path.parents}:
            models[str(path)] = form
    return dict(sorted(models.items()))


def choose_model(names: Iterable[str], file: str | None, what: str) -> str:
    """Choose the model ``file``, or the only one; folders come first. ``what``: the folder's name in messages.

    Raises ImportModelError where there is none, or several.
    """
    models = find_models(names)
    if file is not None:
        path = str(PurePosixPath(file))
        if path in models:
            return path
        hint = did_you_mean(path, models, 3, 0.3)
        raise ImportModelError(f"{what} has no model {file}.{hint}")
    by_kind = ([name for name, form in models.items() if form == folder] for folder in FOLDERS)
    likely = next(filter(None, by_kind), list(models))
    if not likely:
        raise ImportModelError(
            f"{what} has no model in it: no {' or '.join(FOLDERS.values())}, no file of {EXTENSIONS}."
        )
    if len(likely) > 1:
        some = escape_invisible(", ".join(likely[:5]))
        raise ImportModelError(f"{what} has {len(likely)} that may be meant; name one of them as `file`: {some}")
    return likely[0]


def unpack_archive(archive: Path, folder: Path, what: str, bounds: Bounds) -> None:
    """Write the content of a .tar, .tar.gz or .zip into the empty ``folder``. ``what``: the archive's name in messages.

    Raises ImportModelError for an invalid archive, a member that is neither folder nor plain file or has a name that
    leads out, more than ``bounds`` allow, and DiskError.
    """
    room = _Room(folder, what, bounds)
    with archive.open("rb") as file:
        kind = _detect_kind(file)
        try:
            if kind == "zip":
                _unpack_zip(file, room)
            elif kind == "gzip":
                with gzip.GzipFile(fileobj=file) as inner:
                    _unpack_tar(inner, room)
            elif kind == "tar":
                _unpack_tar(file, room)
            else:
                raise ImportModelError(f"{what} is not an archive: neither .tar, .tar.gz nor .zip.")
        except _BROKEN as error:
            raise ImportModelError(f"{what} is not a whole archive: {describe_error(error)}.") from error


def list_names(folder: Path) -> list[str]:
    """Return the files below an unpacked archive's folder."""
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


class _Room:
    """A folder, and the limits of what may still be written there."""

    def __init__(self, folder: Path, what: str, bounds: Bounds) -> None:
        self.folder, self.what, self.bounds = folder, what, bounds
        self._files, self._bytes = 0, 0

    def make_folder(self, name: str) -> Path:
        path = self._resolve_path(name)
        with disk_errors(self.folder):
            try:
                path.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise ImportModelError(f"{self.what}: {escape_invisible(name)} is a file and a folder.") from None
        return path

    def write_member(self, name: str, source: IO[bytes]) -> None:
        path = self._resolve_path(name)
        self.make_folder(str(PurePosixPath(name).parent))
        with disk_errors(self.folder):
            try:
                file = path.open("xb")
            except FileExistsError:
                raise ImportModelError(f"{self.what} has two members called {escape_invisible(name)}.") from None
        with file:
            while chunk := source.read(_CHUNK):
                self._bytes += len(chunk)
                if self._bytes > self.bounds.bytes:
                    raise ImportModelError(f"{self.what} unpacks to more than {self.bounds.bytes:,} bytes.")
                with disk_errors(self.folder):
                    file.write(chunk)

    def make_refusal(self, name: str, why: str) -> ImportModelError:
        return ImportModelError(f"{self.what} has a member that is not unpacked: {escape_invisible(name)} {why}.")

    def _resolve_path(self, name: str) -> Path:
        """Return the path of a member, and count it."""
        self._files += 1
        if self._files > 3 * self.bounds.files:
            raise ImportModelError(f"{self.what} has more than {self.bounds.files:,} files.")
        parts = safe_parts(name)
        if parts is None:
            raise self.make_refusal(name, "leads elsewhere, or is too long")
        return self.folder.joinpath(*parts)


class _Metered:
    """A file that gives at most ``allowed`` bytes, as a protection against archives with wrong sizes."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file, self.allowed = file, 0
        self.seek, self.tell = file.seek, file.tell
        self.seekable, self.close = file.seekable, lambda: None

    def read(self, count: int = -1) -> bytes:
        if count > self.allowed:
            raise tarfile.ReadError("its headers are too large")
        data = self._file.read(count if count >= 0 else self.allowed)
        self.allowed -= len(data)
        return data


def _unpack_tar(file: IO[bytes] | gzip.GzipFile, room: _Room) -> None:
    metered = _Metered(file)
    metered.allowed = _HEADERS
    with tarfile.open(fileobj=cast(IO[bytes], metered), mode="r|") as members:
        while True:
            metered.allowed = _HEADERS
            member = members.next()
            if member is None:
                return
            if member.isdir():
                room.make_folder(member.name)
            elif member.isreg() and not member.issparse():
                metered.allowed = member.size + _HEADERS
                source = members.extractfile(member)
                assert source is not None
                with closing(source):
                    room.write_member(member.name, source)
            else:
                raise room.make_refusal(member.name, "is neither a folder nor a plain file")


def _unpack_zip(file: IO[bytes], room: _Room) -> None:
    metered = _Metered(file)
    metered.allowed = _DIRECTORY
    with zipfile.ZipFile(metered) as members:
        for member in members.infolist():
            mode = member.external_attr >> 16
            if member.is_dir():
                room.make_folder(member.filename)
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise room.make_refusal(member.filename, "is neither a folder nor a plain file")
            if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise room.make_refusal(member.filename, "is encrypted, or packed in a way that is not common")
            metered.allowed = member.compress_size + _HEADERS
            with members.open(member) as source:
                room.write_member(member.filename, source)


def _detect_kind(file: IO[bytes]) -> str | None:
    head = file.read(512)
    file.seek(0)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    return "tar" if head[257:262] == b"ustar" else None
