"""Functions that open each kind of address, in the one place that knows all kinds."""

from __future__ import annotations

from dataclasses import dataclass

from builder.config.address import Address
from builder.sources import hub, kaggle, mlflow, s3
from builder.sources.https_client import Access, make_file_opener, read_netrc
from builder.sources.transfer import Bounds, Open


@dataclass(frozen=True)
class RemoteFile:
    """A remote file; ``sha256``: its digest by its host, if the host states one."""

    open: Open
    sha256: str | None = None


def find_remote_file(address: Address, file: str | None, bounds: Bounds) -> RemoteFile:
    """Find the file at an address. ``file``: the path of the file among those that MLflow keeps.

    Raises ImportModelError for a missing file, EnvironmentSetupError where the server can't be asked.
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
