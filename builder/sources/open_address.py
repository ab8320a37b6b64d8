"""How each kind of address is opened: the one place that knows them all."""

from __future__ import annotations

from dataclasses import dataclass

from builder.config.address import Address
from builder.sources import hub, kaggle, mlflow, s3
from builder.sources.https_client import Access, file_at, of_netrc
from builder.sources.transfer import Bounds, Open


@dataclass(frozen=True)
class Remote:
    """A file elsewhere; ``sha256`` is what its host says it has, if it does."""

    open: Open
    sha256: str | None = None


def remote(address: Address, file: str | None, bounds: Bounds) -> Remote:
    """Find the file at an address. ``file``: which of those that MLflow keeps.

    Raises ImportModelError for what is not there, EnvironmentSetupError where it can't be asked for.
    """
    match address.kind:
        case "s3":
            return Remote(s3.object_at(address, bounds))
        case "hf":
            access = hub.access_to(address, bounds)
            return Remote(file_at(hub.url_of(address), access), hub.linked_sha256(address, access))
        case "kaggle":
            return Remote(file_at(kaggle.url_of(address), kaggle.access_to(address, bounds)))
        case "mlflow":
            return Remote(mlflow.version_at(address, bounds).open(file or ""))
        case "https":
            hint = "Write the credentials for this host into ~/.netrc, or ask its owner for access."
            return Remote(file_at(address.text, Access(address.shown, hint, of_netrc(address.text), bounds=bounds)))
