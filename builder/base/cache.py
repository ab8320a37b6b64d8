"""Folders of stage outputs, which are built once for the same input.

A stage's key is the hash of all its inputs: the bytes of its input files, its options and coldforge's own code. A
folder is built beside its place and moved there whole (``builder.base.files``), so that an interrupted or failed stage
does not change the previous output.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import builder
from builder.base.files import Say, is_settled, lock_target, replace_locked_folder, show_nothing

KEY_FILE = ".key"
"""A file in a stage's folder with its key and the seconds that it took. It is not part of the output."""


def compute_digest(*parts: str | Path) -> str:
    """Return the SHA-256 (hex) of texts and of the content of files and folders, with the names in folders."""
    total = hashlib.sha256()
    for part in parts:
        piece = hashlib.sha256()
        if isinstance(part, str):
            piece.update(part.encode())
        elif part.is_dir():
            for path in sorted(p for p in part.rglob("*") if p.is_file() and p.name != KEY_FILE):
                piece.update(f"{path.relative_to(part).as_posix()}\0{file_digest(path)}\n".encode())
        else:
            piece.update(file_digest(part).encode())
        total.update(piece.digest())
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_digest(path: Path) -> dict[str, str]:
    """Return a digest that others can compute too, under in-toto's name for its kind.

    ``sha256`` of a file. ``dirHash`` of a folder: the SHA-256 over a line for each file, with its SHA-256 and its name,
    which is Hash1 of https://pkg.go.dev/golang.org/x/mod/sumdb/dirhash in hex. Bytecode does not count.
    """
    if path.is_file():
        return {"sha256": file_digest(path)}
    files = sorted((p.relative_to(path).as_posix(), p) for p in path.rglob("*") if p.is_file())
    lines = [f"{file_digest(p)}  {name}\n" for name, p in files if "__pycache__" not in name and p.name != KEY_FILE]
    return {"dirHash": hashlib.sha256("".join(lines).encode()).hexdigest()}


def place_file(source: str | Path, target: str | Path) -> None:
    """Make ``target`` a hard link to ``source``, or a copy if the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@functools.cache
def code_digest() -> str:
    """Return the SHA-256 (hex) of coldforge's own builder and runtime sources."""
    root = Path(builder.__file__).parent
    sources = sorted(p for p in root.rglob("*") if p.suffix in {".py", ".c", ".h", ".inc", ".mjs", ".json"})
    return compute_digest(*(part for p in sources for part in (p.relative_to(root).as_posix(), p)))


def run_cached(folder: Path, key: str, build: Callable[[Path], object], say: Say = show_nothing) -> bool:
    """Build ``folder`` for ``key`` unless it is complete, and return whether it was.

    ``build`` writes into an empty folder. Its errors pass through, as a DiskError if the disk is at fault, and the
    previous content of ``folder`` stays. If several processes build the same folder, one does and the others wait,
    which ``say`` reports.
    """
    if _is_complete(folder, key) and is_settled(folder):
        return True
    with lock_target(folder, say):
        if _is_complete(folder, key):  # Another process has built it meanwhile.
            return True
        with replace_locked_folder(folder) as fresh:
            begin = time.monotonic()
            build(fresh)
            seconds = time.monotonic() - begin
            files = {p.relative_to(fresh).as_posix(): p.stat().st_size for p in fresh.rglob("*") if p.is_file()}
            (fresh / KEY_FILE).write_text(json.dumps({"key": key, "files": files, "seconds": seconds}, sort_keys=True))
    return False


def read_build_seconds(folder: Path) -> float | None:
    """Return the seconds that ``run_cached`` took to build ``folder``, or None if that is unknown."""
    try:
        return float(json.loads((folder / KEY_FILE).read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_complete(folder: Path, key: str) -> bool:
    """Return whether ``folder`` was built for ``key`` and all files still have their sizes."""
    try:
        record = json.loads((folder / KEY_FILE).read_text())
        return bool(record["key"] == key) and all((folder / f).stat().st_size == n for f, n in record["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
