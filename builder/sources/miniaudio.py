"""C code of miniaudio, which decodes recordings: a pinned source distribution, unpacked and never installed.

pip is not used, because it would run the build script to read the metadata.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from builder.base.cache import file_digest, run_cached
from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.config.address import parse_address
from builder.sources.fetch_model import find_remote_file
from builder.sources.model_store import Store
from builder.sources.transfer import Show, discard_download, no_progress, transfer_file

VERSION = "1.71"
ARCHIVE = f"miniaudio-{VERSION}.tar.gz"
SHA256 = "ff51e2887bb673e2e757752b586b3dc924d59aa5fbcae9bbc45f4a111bd3262b"
URL = f"https://files.pythonhosted.org/packages/d8/d5/e5439dc08561f73656bfeb3340fc64ab63163e101426593d8fb9a025ff1e/{ARCHIVE}"
HEADER = "miniaudio.h"
PACKAGES = "packages"
"""Folder of the cache that source distributions are kept in."""


def fetched_folder(cache: Path) -> Path:
    """Return the folder that ``fetch_miniaudio`` leaves the source distribution in."""
    return Store(cache / PACKAGES).make_path(SHA256, ARCHIVE).parent


def fetch_miniaudio(cache: Path, show: Show = no_progress) -> Path:
    """Return the path of the source distribution in ``cache``. The network is needed once.

    ``show`` displays the download. Raises EnvironmentSetupError where it cannot be fetched, and DiskError.
    """
    store = Store(cache / PACKAGES, show)
    with store.translate_disk_errors(), store.lock_download(SHA256) as part:
        if cached := store.find_file(SHA256, ARCHIVE):
            return cached
        try:
            open_at, _ = find_remote_file(parse_address(URL), None, store.bounds)
            transfer_file(open_at, part, ARCHIVE, store.bounds, show)
            if (digest := file_digest(part)) != SHA256:
                discard_download(part)
                raise ImportModelError(f"{ARCHIVE} came as another file: its SHA-256 is {digest}.")
        except (ImportModelError, EnvironmentSetupError) as error:
            raise EnvironmentSetupError(
                f"{error}\nA model that takes sound is compiled with {URL}\n(SHA-256 {SHA256}). If that cannot be "
                f"reached, put the file at {store.make_path(SHA256, ARCHIVE)}."
            ) from error
        file = store.keep_file(part, SHA256, ARCHIVE)
        discard_download(part)
    return file


def unpack_miniaudio(cache: Path) -> Path:
    """Return the folder in ``cache`` with ``miniaudio.h``. Raises as ``fetch_miniaudio`` does."""

    def unpack(folder: Path) -> None:
        with tarfile.open(fetch_miniaudio(cache)) as archive:
            member = archive.extractfile(f"miniaudio-{VERSION}/miniaudio/{HEADER}")
            assert member is not None
            (folder / HEADER).write_bytes(member.read())

    folder = cache / "miniaudio"
    run_cached(folder, SHA256, unpack)
    return folder
