"""Access to MLflow's model registry by its REST API: the location and names of a version's files, and their content.

Source: "REST API", https://mlflow.org/docs/latest/rest-api.html; tried against MLflow 3.17. mlflow-skinny sets no limit
to a server's answers, and needs 28 other packages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import Message
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.base.escape import escape_invisible
from builder.config.address import Address, parse_address
from builder.sources import s3
from builder.sources.archive import safe_parts
from builder.sources.https_client import Access, fetch_json, make_basic_auth, make_file_opener
from builder.sources.transfer import Bounds, Open

_API = "/api/2.0/mlflow"
_FILES = "/api/2.0/mlflow-artifacts/artifacts"
"""Path below which a tracking server passes files on, in whatever storage they are."""


@dataclass(frozen=True)
class ModelVersion:
    """One version of a registered model. ``root``: the location of its files, ``mlflow-artifacts:`` or ``s3:``."""

    address: Address
    root: str
    server: str
    access: Access

    def make_opener(self, file: str) -> Open:
        """Return a function that opens ``file``. It raises ImportModelError and EnvironmentSetupError as well."""
        if self.root.startswith("s3://"):
            bucket, key = self._split_location(file)
            return s3.make_object_opener(Address("s3", f"s3://{bucket}/{key}", bucket, key), self.access.bounds)
        access = replace(self.access, what=f"{file} of {self.address.shown}")
        return make_file_opener(f"{self.server}{_FILES}/{quote(self._make_path(file))}", access)

    def list_files(self, folder: str = "") -> list[str]:
        """Return the paths of all files below ``folder``. Raises ImportModelError for more than the bounds allow."""
        if self.root.startswith("s3://"):
            bucket, key = self._split_location(folder)
            keys = s3.list_keys(bucket, f"{key}/", self.address.shown, self.access.bounds)
        else:
            keys = self._iterate_files(folder)
        names = []
        for name in keys:
            if safe_parts(name) is None:
                raise ImportModelError(
                    f"{self.address.shown} has a file whose name leads elsewhere: {escape_invisible(name)}."
                )
            names.append(name)
            if len(names) > self.access.bounds.files:
                raise ImportModelError(f"{self.address.shown} has more than {self.access.bounds.files:,} files.")
        return names

    def _iterate_files(self, folder: str) -> Iterator[str]:
        rows = _query_server(f"{self.server}{_FILES}", self.access, path=self._make_path(folder)).get("files", [])
        for row in rows if isinstance(rows, list) else []:
            name = row.get("path") if isinstance(row, dict) else None
            if not isinstance(name, str) or "/" in name or safe_parts(name) != [name]:
                raise ImportModelError(f"MLflow lists a file of {self.address.shown} whose name leads elsewhere.")
            below = f"{folder}/{name}" if folder else name
            if not row.get("is_dir"):
                yield name
            elif safe_parts(below) is not None:
                yield from (f"{name}/{inner}" for inner in self._iterate_files(below))

    def _make_path(self, file: str) -> str:
        root = re.sub("^mlflow-artifacts:(//[^/]*)?", "", self.root)
        return f"{root}/{file}".strip("/")

    def _split_location(self, file: str) -> tuple[str, str]:
        """Return the bucket and key of a file or folder below a root in S3."""
        bucket, _, key = f"{self.root}/{file}".removeprefix("s3://").rstrip("/").partition("/")
        return bucket, key


def find_version(address: Address, bounds: Bounds) -> ModelVersion:
    """Return the version that ``address`` names, or that its alias names now.

    Raises ImportModelError where the registry has none, or keeps it where coldforge can't read; EnvironmentSetupError
    where the server is unknown, refuses or does not answer.
    """
    server, access = _read_server(), _make_access(address, bounds)
    if not address.revision:
        address = _resolve_alias(address, server, access)
    url = f"{server}{_API}/model-versions/get-download-uri"
    root = _extract_text(_query_server(url, access, name=address.place, version=address.revision), "artifact_uri")
    if match := re.fullmatch(r"runs:/(\w+)/(.*)", root):
        run = _query_server(f"{server}{_API}/runs/get", access, run_id=match[1])
        root = f"{_extract_text(run, 'run', 'info', 'artifact_uri')}/{match[2]}"
    scheme = root.partition(":")[0]
    if scheme not in ("mlflow-artifacts", "s3"):
        raise ImportModelError(
            f"MLflow keeps {address.shown} at {escape_invisible(scheme)[:20]}:, which coldforge does not read. Start "
            "its server with --serve-artifacts, or name the files' own address as source."
        )
    return ModelVersion(address, root.rstrip("/"), server, access)


def _resolve_alias(address: Address, server: str, access: Access) -> Address:
    url, alias = f"{server}{_API}/registered-models/alias", address.text.rpartition("@")[2]
    version = _extract_text(_query_server(url, access, name=address.place, alias=alias), "model_version", "version")
    try:
        return parse_address(f"mlflow:/models:/{address.place}/{version}")
    except ValueError:
        raise EnvironmentSetupError(f"MLflow does not say which version {address.shown} is.") from None


def _read_server() -> str:
    server = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    try:
        parts = urlsplit(server)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise EnvironmentSetupError(
            "MLFLOW_TRACKING_URI does not name the MLflow server: set it to an address like https://mlflow.example.com."
        )
    if "@" in parts.netloc or parts.query:
        raise EnvironmentSetupError(
            "MLFLOW_TRACKING_URI has more than an address in it: put a name and password into MLFLOW_TRACKING_USERNAME "
            "and MLFLOW_TRACKING_PASSWORD."
        )
    return server


def _make_access(address: Address, bounds: Bounds) -> Access:
    """Return the access to the server. This machine may be asked without encryption, as nobody is in between."""
    hint = "Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
    user, password = os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")
    headers = {}
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        headers = {"Authorization": f"Bearer {token}"}
    elif user and password:
        headers = make_basic_auth(user, password)
    return Access(address.shown, hint, headers, plain_loopback=True, bounds=bounds)


def _query_server(url: str, access: Access, **query: str | None) -> dict[str, Any]:
    def explain(status: int, _headers: Message) -> ImportModelError | None:
        why = f"MLflow has no {access.what}. Look at the model's page there for its versions."
        return ImportModelError(why) if status in (400, 404) else None

    answer = fetch_json(f"{url}?{urlencode(query)}", replace(access, explain=explain))
    return answer if isinstance(answer, dict) else {}


def _extract_text(value: Any, *keys: str) -> str:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str) or not value.isprintable():
        raise EnvironmentSetupError("MLflow's server gives another answer than its API says. Is it one?")
    return value
