"""Addresses of models that are not on this disk, which ``[model] source`` may name instead of a path.

An address may hold a secret in its query, as a presigned URL does, so everything prints it only as ``shown``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

Kind = Literal["https", "s3", "hf", "kaggle", "mlflow"]

FORMS: dict[Kind, str] = {
    "https": "https://host/model.keras",
    "s3": "s3://bucket/model.keras",
    "hf": "hf://org/repo/model.keras@COMMIT",
    "kaggle": "kaggle://owner/model/framework/variation/VERSION",
    "mlflow": "mlflow:/models:/name/VERSION",
}
"""An example of each kind."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]+)(://|:/models:/)")
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_SHAPES: dict[Kind, re.Pattern[str]] = {
    "s3": re.compile(r"s3://(?P<place>[a-z0-9][a-z0-9.-]+)/(?P<path>.*?[^/?])(\?versionId=(?P<revision>[\w.-]+))?"),
    "hf": re.compile(rf"hf://(?P<place>{_PART}/{_PART})(/(?P<path>[^@?#]*[^@?#/]))?(@(?P<revision>[\w./-]+))?"),
    "kaggle": re.compile(rf"kaggle://(?P<place>{_PART}/{_PART}/{_PART}/{_PART})/(?P<revision>[1-9][0-9]*)(?P<path>)"),
    "mlflow": re.compile(r"mlflow:/models:/(?P<place>[^/@?#]+)(/(?P<revision>[1-9][0-9]*)|@[\w.-]+)(?P<path>)"),
}
_COMMIT = re.compile(r"[0-9a-f]{40}")
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")


@dataclass(frozen=True)
class Address:
    """Address of a model, with a ``path`` of the file there, with slashes; empty where there is no choice.

    ``place``: host, bucket, repository, variation or registered model. ``revision``: commit, version of an object or
    version number; empty if the address has none.
    """

    kind: Kind
    text: str  # as model.toml has it
    place: str
    path: str = ""
    revision: str = ""

    @property
    def shown(self) -> str:
        """The address without parts that may be secret."""
        return self.text.partition("#")[0].partition("?")[0] if self.kind == "https" else self.text

    @property
    def name(self) -> str:
        """A name for the file, which is safe on any file system."""
        last = PurePosixPath(self.path or self.place).name
        return re.sub(r"[^A-Za-z0-9._+-]", "_", last).lstrip(".")[-100:] or "model"

    @property
    def pinned(self) -> bool:
        """True if the address always gives the same bytes, provided that its server keeps to that."""
        commit = self.kind == "hf" and _COMMIT.fullmatch(self.revision) is not None
        return commit or (self.kind in ("kaggle", "mlflow") and self.revision != "")

    @property
    def is_archive(self) -> bool:
        """True if the name is that of an archive. Kaggle has only archives."""
        return self.kind == "kaggle" or self.path.lower().endswith(ARCHIVES)

    @property
    def is_repository(self) -> bool:
        """True if the address names a repository on Hugging Face, and no file of it."""
        return self.kind == "hf" and not self.path

    def name_file(self, path: str) -> Address:
        """Return the address of the file ``path`` of the same repository and revision on Hugging Face."""
        revision = f"@{self.revision}" if self.revision else ""
        return replace(self, text=f"hf://{self.place}/{path}{revision}", path=path)


def is_address(text: str) -> bool:
    """Return whether ``text`` is meant as an address, valid or not, and not as a path."""
    return _SCHEME.match(text) is not None


def parse_address(text: str) -> Address:
    """Parse the address ``text``. Raises ValueError with the mistake and its correction, and without secrets."""
    scheme = text.partition(":")[0].lower()
    kind = next((kind for kind in FORMS if kind == scheme), None)
    if kind is None:
        why = "is not encrypted" if scheme == "http" else "is not known"
        raise ValueError(f"{scheme}:// {why}; use one of {', '.join(FORMS.values())}")
    if kind == "https":
        return _parse_https(text)
    match = _SHAPES[kind].fullmatch(text) if text.isprintable() else None
    if match is None or _has_relative_parts(match["path"] or ""):
        raise ValueError(f"is not of the form of such an address; write it like {FORMS[kind]}")
    return Address(kind, text, match["place"], match["path"] or "", match["revision"] or "")


def _parse_https(text: str) -> Address:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise ValueError(f"is not a URL; write it like {FORMS['https']}, with %20 for a space")
    if "@" in parts.netloc:
        raise ValueError("has a name or password in it; write these into ~/.netrc, and the URL without them")
    return Address("https", text, parts.netloc, unquote(parts.path))


def _has_relative_parts(path: str) -> bool:
    return any(part in ("", ".", "..") for part in path.split("/")) if path else False
