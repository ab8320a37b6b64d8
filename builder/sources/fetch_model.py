"""A model at an address: fetched once, kept under its digest, unpacked from its archive, and pinned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

from builder.base.cache import content_digest, file_digest, place_file
from builder.base.errors import ImportModelError
from builder.base.escape import escape_invisible, toml_string
from builder.base.files import replace_folder
from builder.config import Source
from builder.config.address import Address, parse_address
from builder.config.rules import FOLDERS, REPOSITORIES
from builder.sources import archive, hubs, mlflow, s3
from builder.sources.archive import ITSELF, choose_model, find_models
from builder.sources.https_client import Access, make_file_opener, read_netrc
from builder.sources.model_store import SHA256, Store, require_digest
from builder.sources.transfer import Bounds, Open, discard_download, transfer_file
from builder.sources.transformers_folder import FolderFiles, require_model_folder


def fetch_model(source: Source, store: Store) -> tuple[Path, str | None]:
    """Fetch the model at ``source.address``, or take it from the cache if its bytes are known and present.

    Return its path, and the digest of the download, which may be its archive; None for a folder. Raises
    ImportModelError, EnvironmentSetupError and DiskError.
    """
    path, digest = _fetch_whole_model(source, store)
    if source.format in REPOSITORIES:
        require_model_folder(path, source.shown, trust=source.trust)
    return path, digest


def _fetch_whole_model(source: Source, store: Store) -> tuple[Path, str | None]:
    address = source.address
    assert address
    if address.is_repository:
        return _fetch_repository(source, address, store), None
    if address.kind == "mlflow" and source.format in FOLDERS:
        return _fetch_folder(source, address, store), None
    if not source.archived:
        file = fetch_file(source, store)
        return file, file.parent.name
    folder, member = fetch_archived_model(source, store)
    if (form := find_models(archive.list_names(folder))[member]) != source.format:
        line = f"format = {toml_string(form)}" if form in FOLDERS else f"file = {toml_string(member)}"
        raise ImportModelError(
            f"{address.shown} has no {FOLDERS.get(source.format, source.format)}. Its model is "
            f"{escape_invisible(member)}, of format {form}. Write this line under [model]:\n  {line}"
        )
    return folder / member, folder.parent.name


def fetch_archived_model(source: Source, store: Store) -> tuple[Path, str]:
    """Return the folder with the content of the source's archive, and the model's path in it.

    Raises as ``fetch_model``.
    """
    address = source.address
    assert address
    folder = _unpack_cached(fetch_file(source, store), store, address.shown)
    return folder, choose_model(archive.list_names(folder), source.file, address.shown)


def fetch_file(source: Source, store: Store) -> Path:
    """Fetch the single file at the address, and return its path in the cache. Raises as ``fetch_model``."""
    address = source.address
    assert address
    key = record_key(source)
    name = PurePosixPath(source.file).name if address.kind == "mlflow" and source.file else address.name
    digest = source.sha256 or (store.read_digest(key) if address.pinned else None)
    cached = store.find_file(digest, name) if digest else None
    if cached is None:
        cached = _download_file(source, address, name, store)
        if address.pinned:
            store.record_digest(key, cached.parent.name)
    return cached


def require_pinned(source: Source, sha256: str | None, toml: str) -> None:
    """Raise ImportModelError, with the line that pins the source to ``sha256``, where nothing in ``toml`` does."""
    address = source.address
    if address and source.sha256 is None and not address.pinned:
        raise ImportModelError(
            f"{address.shown} may be another file tomorrow, and {toml} does not pin it. If you trust what is there "
            f'now, write this line under [model]:\n  sha256 = "{sha256}"'
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
        commit = hubs.resolve_commit(address, hubs.make_hub_access(address, bounds))
        path = f"/{address.path}" if address.path else ""
        return parse_address(f"hf://{address.place}{path}@{commit}")
    if address.kind == "mlflow" and not address.pinned:
        return mlflow.find_version(address, bounds).address
    return address


def record_key(source: Source) -> str:
    """Return the key under which the digest of an immutable address is recorded."""
    address = source.address
    assert address
    return f"{address.shown} {source.file}" if address.kind == "mlflow" else address.shown


def _download_file(source: Source, address: Address, name: str, store: Store) -> Path:
    with store.translate_disk_errors(), store.lock_download(f"{address.text} {source.file}") as part:
        if source.sha256 and (cached := store.find_file(source.sha256, name)):
            return cached  # Another process was faster.
        open_at, stated = find_remote_file(address, source.file, store.bounds)
        require_digest(address.shown, SHA256, source.sha256, stated)
        transfer_file(open_at, part, address.shown, store.bounds, store.show)
        digest = file_digest(part)
        try:
            require_digest(address.shown, SHA256, source.sha256, digest)
            if stated not in (None, digest):
                raise ImportModelError(f"{address.shown} came with other bytes than its host says. Run this again.")
        except ImportModelError:
            discard_download(part)
            raise
        file = store.keep_file(part, digest, name)
        discard_download(part)
        return file


def _unpack_cached(packed: Path, store: Store, what: str) -> Path:
    """Return the folder with the content of the archive ``packed``, unpacked again if it is missing or changed."""
    digest = packed.parent.name
    folder, key = store.make_path(digest, "unpacked"), f"unpacked:{digest}"
    if folder.is_dir() and content_digest(folder)["dirHash"] == store.read_digest(key):
        return folder
    with store.translate_disk_errors(), replace_folder(folder) as fresh:
        archive.unpack_archive(packed, fresh, what, store.bounds)
    store.record_digest(key, content_digest(folder)["dirHash"])
    return folder


def _fetch_folder(source: Source, address: Address, store: Store) -> Path:
    """Fetch a model whose files MLflow keeps one by one in a folder, and keep it under a digest over all of them."""
    assert source.file
    key, name = record_key(source), PurePosixPath(source.file).name
    if cached := _find_cached_folder(key, name, store):
        return cached
    version = mlflow.find_version(address, store.bounds)
    names, left = version.list_files(source.file), store.bounds.bytes
    if find_models(names).get(ITSELF) != source.format:
        what = f"{FOLDERS[source.format]}, as the names of its files tell"
        raise ImportModelError(f"{source.file} of {address.shown} is no {what}.")
    with store.translate_disk_errors(), store.make_scratch(key) as fresh:
        for member in names:
            with store.lock_download(f"{key}/{member}") as part:
                file, bounds = f"{source.file}/{member}", replace(store.bounds, bytes=left)
                transfer_file(version.make_opener(file), part, f"{address.shown} {file}", bounds, store.show)
                left -= part.stat().st_size
                (fresh / member).parent.mkdir(parents=True, exist_ok=True)
                part.rename(fresh / member)
                discard_download(part)
        return _keep_folder(fresh, key, name, store)


def _fetch_repository(source: Source, address: Address, store: Store) -> Path:
    """Fetch the files of a repository that make a model of transformers, and keep them as ``_fetch_folder`` does.

    Each file is in the cache on its own, too, so that those which have arrived are not fetched again.
    """
    key = record_key(source)
    if cached := _find_cached_folder(key, address.name, store):
        return cached
    left = store.bounds.bytes

    def fetch_member(name: str) -> Path:
        member = replace(source, address=address.name_file(name))
        return fetch_file(member, replace(store, bounds=replace(store.bounds, bytes=left)))

    sizes = hubs.list_hub_files(address, hubs.make_hub_access(address, store.bounds))
    files = FolderFiles(address.shown, sizes, fetch_member, lambda name: address.name_file(name).text, source.trust)
    names = files.choose_names()
    if sum(sizes[name] for name in names) > store.bounds.bytes or len(names) > store.bounds.files:
        raise ImportModelError(f"{address.shown} has more files, or more bytes in them, than any function can hold.")
    with store.translate_disk_errors(), store.make_scratch(key) as fresh:
        for name in names:
            file = fetch_member(name)
            left -= file.stat().st_size
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            place_file(file, fresh / name)
        return _keep_folder(fresh, key, address.name, store)


def _find_cached_folder(key: str, name: str, store: Store) -> Path | None:
    """Return the folder that was recorded under ``key``, if it still has its bytes."""
    digest = store.read_digest(key)
    folder = store.make_path(digest, name) if digest else None
    return folder if folder and folder.is_dir() and content_digest(folder)["dirHash"] == digest else None


def _keep_folder(fresh: Path, key: str, name: str, store: Store) -> Path:
    """Move what is in ``fresh`` into the cache, under its digest, and record that under ``key``."""
    digest = content_digest(fresh)["dirHash"]
    kept = store.make_path(digest, name)
    with replace_folder(kept) as target:
        for path in fresh.iterdir():
            path.rename(target / path.name)
    store.record_digest(key, digest)
    return kept


def find_remote_file(address: Address, file: str | None, bounds: Bounds) -> tuple[Open, str | None]:
    """Find the file at an address, and its SHA-256 if its host states one. ``file``: its path among those of MLflow.

    Raises ImportModelError for a missing file, EnvironmentSetupError where the server can't be asked.
    """
    match address.kind:
        case "s3":
            return s3.make_object_opener(address, bounds), None
        case "mlflow":
            return mlflow.find_version(address, bounds).make_opener(file or ""), None
        case "hf":
            access = hubs.make_hub_access(address, bounds)
            return make_file_opener(hubs.make_hub_url(address), access), hubs.fetch_linked_sha256(address, access)
        case "kaggle":
            access = hubs.make_kaggle_access(address, bounds)
            return make_file_opener(hubs.make_kaggle_url(address), access), None
        case "https":
            hint = "Write the credentials for this host into ~/.netrc, or ask its owner for access."
            access = Access(address.shown, hint, read_netrc(address.text), bounds=bounds)
            return make_file_opener(address.text, access), None
