"""Access to Hugging Face's hub and to Kaggle's models: a file's URL with its credentials, and what the hub says of it.

Sources: "Hub API endpoints", https://huggingface.co/docs/hub/api, and huggingface_hub's environment variables; Kaggle's
public API, as its own client uses it (https://github.com/Kaggle/kagglehub). Those two packages write downloads of any
size and check them afterwards, and need ten others.
"""

from __future__ import annotations

import json
import os
import re
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from builder.base.commands import did_you_mean
from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.config.address import Address
from builder.sources.https_client import Access, fetch_headers, fetch_json, make_basic_auth
from builder.sources.transfer import Bounds

_HUB = "https://huggingface.co"


def make_hub_url(address: Address) -> str:
    """Return the URL of the file."""
    revision = quote(address.revision or "main", safe="")
    return f"{_read_endpoint()}/{address.place}/resolve/{revision}/{quote(address.path)}"


def make_hub_access(address: Address, bounds: Bounds) -> Access:
    """Return the access by HF_TOKEN, or by the token that `hf auth login` has stored."""
    hint = (
        f"If the model wants its terms accepted, do so at {_HUB}/{address.place}. If it is private, set HF_TOKEN to a "
        "token that may read it."
    )
    token = _read_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Access(address.shown, hint, headers, partial(_explain_refusal, address, bounds), bounds=bounds)


def resolve_commit(address: Address, access: Access) -> str:
    """Return the commit (40 hexadecimal digits) of the address's branch or tag. Raises as ``fetch_json``."""
    commit = _ask_revision(address, access).get("sha")
    if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{40}", commit):
        raise EnvironmentSetupError(f"The hub does not say which commit {address.shown} is.")
    return commit


def fetch_linked_sha256(address: Address, access: Access) -> str | None:
    """Return the file's SHA-256, which the hub has for large files. Raises as ``fetch_headers``."""
    tag = fetch_headers(make_hub_url(address), access).get("X-Linked-Etag", "").strip('"')
    return tag if re.fullmatch("[0-9a-f]{64}", tag) else None


def list_hub_files(address: Address, access: Access) -> dict[str, int]:
    """Return the names of all files at the address's revision, each with its size; 0 where the hub does not say it."""
    siblings = _ask_revision(address, access, "?blobs=true").get("siblings")
    rows = [row for row in siblings if isinstance(row, dict)] if isinstance(siblings, list) else []
    named = ((row.get("rfilename"), row.get("size")) for row in rows)
    return {name: size if isinstance(size, int) else 0 for name, size in named if isinstance(name, str)}


def _ask_revision(address: Address, access: Access, query: str = "") -> dict[str, Any]:
    """Return the hub's description of the repository at the address's revision."""
    revision = quote(address.revision or "main", safe="")
    answer = fetch_json(f"{_read_endpoint()}/api/models/{address.place}/revision/{revision}{query}", access)
    return answer if isinstance(answer, dict) else {}


def _explain_refusal(address: Address, bounds: Bounds, _status: int, headers: Message) -> ImportModelError | None:
    match headers.get("X-Error-Code"):
        case "EntryNotFound":
            return _make_missing_error(address, make_hub_access(address, bounds))
        case "RevisionNotFound":
            return ImportModelError(f"{address.place} has no branch, tag or commit {address.revision}.")
        case "RepoNotFound":
            return ImportModelError(
                f"The hub has no model {address.place}, or HF_TOKEN may not see it: set that if the model is private."
            )
    return None


def _make_missing_error(address: Address, access: Access) -> ImportModelError:
    hint = did_you_mean(address.path, list_hub_files(address, access), 3, 0.4)
    return ImportModelError(f"{address.place} has no file {address.path} at {address.revision or 'main'}.{hint}")


def _read_endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")


def _read_token() -> str:
    if token := os.environ.get("HF_TOKEN", "").strip():
        return token
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    try:
        return Path(os.environ.get("HF_TOKEN_PATH") or Path(home, "token")).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def make_kaggle_url(address: Address) -> str:
    """Return the URL of the archive."""
    endpoint = (os.environ.get("KAGGLE_API_ENDPOINT") or "https://www.kaggle.com").rstrip("/")
    return f"{endpoint}/api/v1/models/{address.place}/{address.revision}/download"


def make_kaggle_access(address: Address, bounds: Bounds) -> Access:
    """Return the access by KAGGLE_API_TOKEN, by KAGGLE_USERNAME and KAGGLE_KEY, or by ~/.kaggle/kaggle.json.

    Public models need none of them. Raises EnvironmentSetupError for an invalid kaggle.json.
    """
    hint = (
        "If the model wants its terms accepted, do so on its page at kaggle.com. Then set KAGGLE_USERNAME and "
        "KAGGLE_KEY, or write ~/.kaggle/kaggle.json (Settings, API, Create New Token)."
    )
    return Access(address.shown, hint, _read_credentials(), bounds=bounds)


def _read_credentials() -> dict[str, str]:
    if token := os.environ.get("KAGGLE_API_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    if (user := os.environ.get("KAGGLE_USERNAME")) and (key := os.environ.get("KAGGLE_KEY")):
        return make_basic_auth(user, key)
    path = Path(os.environ.get("KAGGLE_CONFIG_DIR") or Path.home() / ".kaggle", "kaggle.json")
    try:
        credentials = json.loads(path.read_text())
        return make_basic_auth(str(credentials["username"]), str(credentials["key"]))
    except OSError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise EnvironmentSetupError(f"{path} is not what Kaggle gives: fetch it from there again.") from None
