"""Cache of fetched models: each file under its SHA-256, and a record of the digest of an immutable address."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.base.cache import file_digest
from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.base.files import lock_target, replace_file, scratch_folder, write_file
from builder.sources.transfer import USUAL, Bounds, Show, no_progress

SHA256 = "[model].sha256"
"""Key of the spec that pins the model."""


def require_digest(what: str, key: str, pinned: str | None, digest: str | None) -> None:
    """Raise ImportModelError where ``key`` of the spec pins another ``digest`` of ``what``, if both are known."""
    if pinned and digest and pinned != digest:
        raise ImportModelError(
            f"{what} is not the file that the spec pins.\n"
            f"  {key}  {pinned}\n"
            f"  {'found':<{len(key)}}  {digest}\n"
            "If the new file is the one you want and trust, write its sha256 into the spec."
        )


@dataclass(frozen=True)
class Store:
    """The cache in the folder ``root``, which is filled within ``bounds``; ``show`` displays a download's progress.

    ``<sha256>/<name>`` is a file, ``downloads/`` has incomplete ones, and ``revisions/`` the records.
    """

    root: Path
    show: Show = no_progress
    bounds: Bounds = USUAL

    @contextmanager
    def translate_disk_errors(self) -> Iterator[None]:
        """Turn an error of the disk while the block writes here into an EnvironmentSetupError, or a DiskError."""
        try:
            yield
        except OSError as error:
            raise EnvironmentSetupError(
                f"{self.root} cannot be written: {error.strerror}. Free some space there, or make it writable."
            ) from error

    def make_path(self, digest: str, name: str) -> Path:
        """Return the path of a file or folder of that digest (hex)."""
        return self.root / digest / name

    def find_file(self, sha256: str, name: str) -> Path | None:
        """Return the file of that digest, if it exists and still has its bytes."""
        path = self.make_path(sha256, name)
        try:
            return path if path.is_file() and file_digest(path) == sha256 else None
        except OSError:
            return None

    @contextmanager
    def lock_download(self, address: str) -> Iterator[Path]:
        """Yield a file to fetch ``address`` into, locked against other processes. It stays after the block."""
        path = self.root / "downloads" / _make_name(address)
        with lock_target(path):
            yield path

    @contextmanager
    def make_scratch(self, address: str) -> Iterator[Path]:
        """Yield an empty folder for the files of ``address``, which is deleted when the block ends."""
        with scratch_folder(self.root / "downloads" / f"{_make_name(address)}-folder") as folder:
            yield folder

    def keep_file(self, fetched: Path, sha256: str, name: str) -> Path:
        """Move a complete file into the cache. Raises DiskError."""
        destination = self.make_path(sha256, name)
        with replace_file(destination) as fresh:
            fetched.replace(fresh)
        return destination

    def read_digest(self, address: str) -> str | None:
        """Return the recorded digest (hex) of the download from ``address``; None where it is not known."""
        try:
            record = json.loads(self._make_record_path(address).read_text())
            digest = record["digest"] if record["address"] == address else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return digest if isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) else None

    def record_digest(self, address: str, digest: str) -> None:
        """Record the digest for ``read_digest``. ``address`` must not contain a secret. Raises DiskError."""
        write_file(self._make_record_path(address), json.dumps({"address": address, "digest": digest}, indent=1) + "\n")

    def _make_record_path(self, address: str) -> Path:
        return self.root / "revisions" / f"{_make_name(address)}.json"


def _make_name(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()[:32]
