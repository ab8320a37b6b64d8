"""A model at an address: fetched once, kept under its digest, unpacked from its archive, and pinned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from builder.base.cache import content_digest, file_digest
from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible, toml_string
from builder.base.files import replace_folder
from builder.config import Source
from builder.config.address import Address, parse_address
from builder.config.rules import guess_format
from builder.sources import archive, hub, mlflow
from builder.sources.folder_models import ITSELF, choose_model, find_models
from builder.sources.model_store import SHA256, Store, require_digest
from builder.sources.open_address import find_remote_file
from builder.sources.transfer import Bounds, Show, discard_download, transfer_file


@dataclass(frozen=True)
class FetchedModel:
    """A model on this disk. ``sha256``: the digest of the downloaded model or archive; None for a folder."""

    path: Path
    sha256: str | None


def fetch_model(source: Source, store: Store, show: Show, bounds: Bounds) -> FetchedModel:
    """Fetch the model at ``source.address``, or take it from the cache if its bytes are known and present.

    Raises ImportModelError, EnvironmentSetupError and DiskError.
    """
    address = source.address
    assert address
    if address.kind == "mlflow" and source.format == "saved_model":
        return FetchedModel(_fetch_folder(source, address, store, show, bounds), None)
    if not source.archived:
        file = fetch_file(source, store, show, bounds)
        return FetchedModel(file, file.parent.name)
    folder, member = fetch_archived_model(source, store, show, bounds)
    if (form := guess_format(member) or "saved_model") != source.format:
        raise ImportModelError(
            f"{address.shown} has no SavedModel. Its model is {escape_invisible(member)}, "
            f"of format {form}. Write this line "
            f"under [model]:\n  file = {toml_string(member)}"
        )
    return FetchedModel(folder / member, folder.parent.name)


def fetch_archived_model(source: Source, store: Store, show: Show, bounds: Bounds) -> tuple[Path, str]:
    """Return the folder with the content of the source's archive, and the model's path in it.

    Raises as ``fetch_model``.
    """
    address = source.address
    assert address
    folder = _unpack_cached(fetch_file(source, store, show, bounds), store, address.shown, bounds)
    return folder, choose_model(archive.list_names(folder), source.file, address.shown)


def fetch_file(source: Source, store: Store, show: Show, bounds: Bounds) -> Path:
    """Fetch the single file at the address, and return its path in the cache. Raises as ``fetch_model``."""
    address = source.address
    assert address
    key = record_key(source)
    name = PurePosixPath(source.file).name if address.kind == "mlflow" and source.file else address.name
    digest = source.sha256 or (store.read_digest(key) if address.pinned else None)
    cached = store.find_file(digest, name) if digest else None
    if cached is None:
        cached = _download_file(source, address, name, store, show, bounds)
        if address.pinned:
            store.record_digest(key, cached.parent.name)
    return cached


def require_pinned(source: Source, found: FetchedModel, toml: str) -> None:
    """Raise ImportModelError, with the line that pins the source, where nothing in ``toml`` does."""
    address = source.address
    if address and source.sha256 is None and not address.pinned:
        raise ImportModelError(
            f"{address.shown} may be another file tomorrow, and {toml} does not pin it. If you trust what is there "
            f'now, write this line under [model]:\n  sha256 = "{found.sha256}"'
        )


def require_fixed(source: Source, bounds: Bounds) -> None:
    """Raise ImportModelError, with the line that pins it, for a branch, tag or alias without a digest."""
    address = source.address
    if address and source.sha256 is None and (fixed := resolve_address(address, bounds)) != address:
        raise ImportModelError(
            f"{address.shown} may lead elsewhere tomorrow. If you trust what is there now, write this line under "
            f'[model]:\n  source = "{fixed.text}"'
        )


def resolve_address(address: Address, bounds: Bounds) -> Address:
    """Replace a branch or tag of the hub by its commit, and an alias of MLflow by its version."""
    if address.kind == "hf" and not address.pinned:
        commit = hub.resolve_commit(address, hub.make_hub_access(address, bounds))
        return parse_address(f"hf://{address.place}/{address.path}@{commit}")
    if address.kind == "mlflow" and not address.pinned:
        return mlflow.find_version(address, bounds).address
    return address


def record_key(source: Source) -> str:
    """Return the key under which the digest of an immutable address is recorded."""
    address = source.address
    assert address
    return f"{address.shown} {source.file}" if address.kind == "mlflow" else address.shown


def _download_file(source: Source, address: Address, name: str, store: Store, show: Show, bounds: Bounds) -> Path:
    with store.translate_disk_errors(), store.lock_download(f"{address.text} {source.file}") as part:
        if source.sha256 and (cached := store.find_file(source.sha256, name)):
            return cached  # Another process was faster.
        opened = find_remote_file(address, source.file, bounds)
        require_digest(address.shown, SHA256, source.sha256, opened.sha256)
        transfer_file(opened.open, part, address.shown, bounds, show)
        digest = file_digest(part)
        try:
            require_digest(address.shown, SHA256, source.sha256, digest)
            if opened.sha256 not in (None, digest):
                raise ImportModelError(f"{address.shown} came with other bytes than its host says. Run this again.")
        except ImportModelError:
            discard_download(part)
            raise
        file = store.keep_file(part, digest, name)
        discard_download(part)
        return file


def _unpack_cached(packed: Path, store: Store, what: str, bounds: Bounds) -> Path:
    """Return the folder with the content of the archive ``packed``, unpacked again if it is missing or changed."""
    digest = packed.parent.name
    folder, key = store.make_path(digest, "unpacked"), f"unpacked:{digest}"
    if folder.is_dir() and content_digest(folder)["dirHash"] == store.read_digest(key):
        return folder
    with store.translate_disk_errors(), replace_folder(folder) as fresh:
        archive.unpack_archive(packed, fresh, what, bounds)
    store.record_digest(key, content_digest(folder)["dirHash"])
    return folder


def _fetch_folder(source: Source, address: Address, store: Store, show: Show, bounds: Bounds) -> Path:
    """Fetch a SavedModel whose files MLflow keeps one by one, and keep it under a digest over all of them."""
    assert source.file
    key, name = record_key(source), PurePosixPath(source.file).name
    digest = store.read_digest(key)
    if digest and (cached := store.make_path(digest, name)).is_dir() and content_digest(cached)["dirHash"] == digest:
        return cached
    version = mlflow.find_version(address, bounds)
    names, left = version.list_files(source.file), bounds.bytes
    if ITSELF not in find_models(names):
        raise ImportModelError(f"{source.file} of {address.shown} is no SavedModel: it has no saved_model.pb.")
    with store.translate_disk_errors(), store.make_scratch(key) as fresh:
        for member in names:
            with store.lock_download(f"{key}/{member}") as part:
                what = f"{address.shown} {source.file}/{member}"
                transfer_file(
                    version.make_opener(f"{source.file}/{member}"), part, what, replace(bounds, bytes=left), show
                )
                left -= part.stat().st_size
                (fresh / member).parent.mkdir(parents=True, exist_ok=True)
                part.rename(fresh / member)
                discard_download(part)
        digest = content_digest(fresh)["dirHash"]
        cached = store.make_path(digest, name)
        with replace_folder(cached) as target:
            for path in fresh.iterdir():
                path.rename(target / path.name)
    store.record_digest(key, digest)
    return cached
