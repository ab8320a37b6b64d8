"""A model at an address: fetched once, kept under its digest, taken out of its archive, and pinned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from builder.base.cache import content_digest, file_digest
from builder.base.errors import ImportModelError
from builder.base.escape import toml_string, visible
from builder.base.files import replacing
from builder.config import Source
from builder.config.address import Address, parse_address
from builder.config.rules import guess_format
from builder.sources import archive, hub, mlflow
from builder.sources.folder_models import ITSELF, choose, models_among
from builder.sources.model_store import SHA256, Store, require_digest
from builder.sources.open_address import remote
from builder.sources.transfer import Bounds, Show, discard, transfer


@dataclass(frozen=True)
class Fetched:
    """A model on this disk. ``sha256``: of what was fetched, the model or its archive; None of a folder."""

    path: Path
    sha256: str | None


def fetch(source: Source, store: Store, show: Show, bounds: Bounds) -> Fetched:
    """Fetch the model at ``source.address``, or take it from the cache if its bytes are known to be there.

    Raises ImportModelError, EnvironmentSetupError and DiskError.
    """
    address = source.address
    assert address
    if address.kind == "mlflow" and source.format == "saved_model":
        return Fetched(_folder(source, address, store, show, bounds), None)
    if not source.archived:
        kept = fetch_file(source, store, show, bounds)
        return Fetched(kept, kept.parent.name)
    folder, inside = model_in_archive(source, store, show, bounds)
    if (form := guess_format(inside) or "saved_model") != source.format:
        raise ImportModelError(
            f"{address.shown} has no SavedModel. Its model is {visible(inside)}, of format {form}. Write this line "
            f"under [model]:\n  file = {toml_string(inside)}"
        )
    return Fetched(folder / inside, folder.parent.name)


def model_in_archive(source: Source, store: Store, show: Show, bounds: Bounds) -> tuple[Path, str]:
    """Return the folder with all that is in the source's archive, and the model's path in it. Raises as ``fetch``."""
    address = source.address
    assert address
    folder = _unpacked(fetch_file(source, store, show, bounds), store, address.shown, bounds)
    return folder, choose(archive.names_in(folder), source.file, address.shown)


def fetch_file(source: Source, store: Store, show: Show, bounds: Bounds) -> Path:
    """Fetch the one file that there is, and return where it is kept. Raises as ``fetch``."""
    address = source.address
    assert address
    key = record_key(source)
    name = PurePosixPath(source.file).name if address.kind == "mlflow" and source.file else address.name
    digest = source.sha256 or (store.recorded(key) if address.pinned else None)
    kept = store.kept(digest, name) if digest else None
    if kept is None:
        kept = _fetch(source, address, name, store, show, bounds)
        if address.pinned:
            store.record(key, kept.parent.name)
    return kept


def require_pinned(source: Source, found: Fetched, toml: str) -> None:
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
    if address and source.sha256 is None and (fixed := fixed_address(address, bounds)) != address:
        raise ImportModelError(
            f"{address.shown} may lead elsewhere tomorrow. If you trust what is there now, write this line under "
            f'[model]:\n  source = "{fixed.text}"'
        )


def fixed_address(address: Address, bounds: Bounds) -> Address:
    """Put a commit in the place of a branch or tag of the hub, and a version in that of an alias of MLflow."""
    if address.kind == "hf" and not address.pinned:
        commit = hub.commit_of(address, hub.access_to(address, bounds))
        return parse_address(f"hf://{address.place}/{address.path}@{commit}")
    if address.kind == "mlflow" and not address.pinned:
        return mlflow.version_at(address, bounds).address
    return address


def record_key(source: Source) -> str:
    """Return the key under which the digest of an immutable address is recorded."""
    address = source.address
    assert address
    return f"{address.shown} {source.file}" if address.kind == "mlflow" else address.shown


def _fetch(source: Source, address: Address, name: str, store: Store, show: Show, bounds: Bounds) -> Path:
    with store.written(), store.download(f"{address.text} {source.file}") as part:
        if source.sha256 and (there := store.kept(source.sha256, name)):
            return there  # another process was faster
        opened = remote(address, source.file, bounds)
        require_digest(address.shown, SHA256, source.sha256, opened.sha256)
        transfer(opened.open, part, address.shown, bounds, show)
        found = file_digest(part)
        try:
            require_digest(address.shown, SHA256, source.sha256, found)
            if opened.sha256 not in (None, found):
                raise ImportModelError(f"{address.shown} came with other bytes than its host says. Run this again.")
        except ImportModelError:
            discard(part)
            raise
        kept = store.keep(part, found, name)
        discard(part)
        return kept


def _unpacked(packed: Path, store: Store, what: str, bounds: Bounds) -> Path:
    """Return the folder with what is in the archive ``packed``, unpacking it where it is not there or was changed."""
    digest = packed.parent.name
    folder, key = store.place(digest, "unpacked"), f"unpacked:{digest}"
    if folder.is_dir() and content_digest(folder)["dirHash"] == store.recorded(key):
        return folder
    with store.written(), replacing(folder) as fresh:
        archive.unpack(packed, fresh, what, bounds)
    store.record(key, content_digest(folder)["dirHash"])
    return folder


def _folder(source: Source, address: Address, store: Store, show: Show, bounds: Bounds) -> Path:
    """Fetch a SavedModel of which MLflow keeps the files one by one, and keep it under a digest over all of them."""
    assert source.file
    key, name = record_key(source), PurePosixPath(source.file).name
    digest = store.recorded(key)
    if digest and (kept := store.place(digest, name)).is_dir() and content_digest(kept)["dirHash"] == digest:
        return kept
    version = mlflow.version_at(address, bounds)
    names, left = version.names(source.file), bounds.bytes
    if ITSELF not in models_among(names):
        raise ImportModelError(f"{source.file} of {address.shown} is no SavedModel: it has no saved_model.pb.")
    with store.written(), store.scratch(key) as fresh:
        for inside in names:
            with store.download(f"{key}/{inside}") as part:
                what = f"{address.shown} {source.file}/{inside}"
                transfer(version.open(f"{source.file}/{inside}"), part, what, replace(bounds, bytes=left), show)
                left -= part.stat().st_size
                (fresh / inside).parent.mkdir(parents=True, exist_ok=True)
                part.rename(fresh / inside)
                discard(part)
        digest = content_digest(fresh)["dirHash"]
        kept = store.place(digest, name)
        with replacing(kept) as target:
            for path in fresh.iterdir():
                path.rename(target / path.name)
    store.record(key, digest)
    return kept
