"""A model at an address: fetched once, kept under its digest, taken out of its archive, and pinned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.cache import content_digest, file_digest
from builder.errors import ImportModelError
from builder.files import replacing
from builder.sources import archive, hub
from builder.sources.remote import remote
from builder.sources.store import Store
from builder.sources.transfer import Bounds, Show, discard, transfer
from builder.spec import Source
from builder.spec.address import Address


@dataclass(frozen=True)
class Fetched:
    """``path``: the model; ``digest``: the SHA-256 of what was fetched, which is the model or its archive."""

    path: Path
    digest: str
    file: Path  # what was fetched

    def pinned(self, source: Source, toml: str) -> Path:
        """``path``, if the spec says which bytes it wants. Raises ImportModelError with the line that does."""
        address = source.address
        assert address
        if source.sha256 is None and not address.pinned:
            raise ImportModelError(
                f"{address.shown} may be another file tomorrow, and {toml} does not pin it. If you trust what is there "
                f'now, write this line under [model]:\n  sha256 = "{self.digest}"'
            )
        return self.path


def fetch(source: Source, store: Store, show: Show, bounds: Bounds) -> Fetched:
    """The model at ``source.address``, from the cache if its bytes are known to be there.

    Raises ImportModelError, EnvironmentSetupError and DiskError.
    """
    address = source.address
    assert address
    if address.kind == "hf" and not address.pinned and source.sha256 is None:
        _require_commit(address, bounds)
    digest = source.sha256 or (store.recorded(address.shown) if address.pinned else None)
    kept = store.kept(digest, address.name) if digest else None
    if kept is None:
        kept = _fetch(address, source.sha256, store, show, bounds)
        digest = kept.parent.name
        if address.pinned:
            store.record(address.shown, digest)
    assert digest
    if not source.archived:
        return Fetched(kept, digest, kept)
    folder = _unpacked(kept, digest, store, address.shown, bounds)
    return Fetched(archive.model_in(folder, source.file, address.shown), digest, kept)


def _fetch(address: Address, sha256: str | None, store: Store, show: Show, bounds: Bounds) -> Path:
    with store.download(address.text) as part:
        if sha256 and (there := store.kept(sha256, address.name)):
            return there  # another process was faster
        opened = remote(address, bounds)
        _require(address, sha256, opened.sha256)
        transfer(opened.open, part, address.shown, bounds, show)
        found = file_digest(part)
        try:
            _require(address, sha256, found)
            if opened.sha256 not in (None, found):
                raise ImportModelError(f"{address.shown} came with other bytes than its host says. Run this again.")
        except ImportModelError:
            discard(part)
            raise
        kept = store.keep(part, found, address.name)
        discard(part)
        return kept


def _require(address: Address, pinned: str | None, found: str | None) -> None:
    """Raises ImportModelError where both digests are known and differ."""
    if pinned and found and pinned != found:
        raise ImportModelError(
            f"{address.shown} is not the file that the spec pins.\n"
            f"  [model].sha256  {pinned}\n"
            f"  found           {found}\n"
            "If the new file is the one you want and trust, write its sha256 into the spec."
        )


def _require_commit(address: Address, bounds: Bounds) -> None:
    """Raises ImportModelError for a branch or tag of the hub, with the line that names its commit."""
    commit = hub.commit_of(address, hub.access_to(address, bounds))
    raise ImportModelError(
        f"{address.shown} names no commit, so it may be another file tomorrow. If you trust what is there now, write "
        f'this line under [model]:\n  source = "hf://{address.place}/{address.path}@{commit}"'
    )


def _unpacked(packed: Path, digest: str, store: Store, what: str, bounds: Bounds) -> Path:
    """The folder with what is in the archive ``packed``, as it was unpacked from it."""
    folder, key = store.place(digest, "unpacked"), f"unpacked:{digest}"
    if folder.is_dir() and content_digest(folder)["dirHash"] == store.recorded(key):
        return folder
    with replacing(folder) as fresh:
        archive.unpack(packed, fresh, what, bounds)
    store.record(key, content_digest(folder)["dirHash"])
    return folder
