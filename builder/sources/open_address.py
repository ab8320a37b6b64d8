"""How each kind of address is opened: the one place that knows them all."""

from __future__ import annotations

from dataclasses import dataclass

from builder.config.address import Address
from builder.sources import hub, kaggle, mlflow, s3
from builder.sources.https_client import Access, make_file_opener, read_netrc
from builder.sources.transfer import Bounds, Open


@dataclass(frozen=True)
class RemoteFile:
    """A file elsewhere; ``sha256`` is what its host says it has, if it does."""

    open: Open
    sha256: str | None = None


def find_remote_file(address: Address, file: str | None, bounds: Bounds) -> RemoteFile:
    """Find the file at an address. ``file``: which of those that MLflow keeps.

    Raises ImportModelError for what is not there, EnvironmentSetupError where it can't be asked for.
    """
    match address.kind:
        case "s3":
            return RemoteFile(s3.make_object_opener(address, bounds))
        case "hf":
            access = hub.make_hub_access(address, bounds)
            return RemoteFile(
                make_file_opener(hub.make_hub_url(address), access), hub.fetch_linked_sha256(address, access)
            )
        case "kaggle":
            return RemoteFile(
                make_file_opener(kaggle.make_kaggle_url(address), kaggle.make_kaggle_access(address, bounds))
            )
        case "mlflow":
            return RemoteFile(mlflow.find_version(address, bounds).make_opener(file or ""))
        case "https":
            hint = "Write the credentials for this host into ~/.netrc, or ask its owner for access."
            return RemoteFile(
                make_file_opener(address.text, Access(address.shown, hint, read_netrc(address.text), bounds=bounds))
            )
