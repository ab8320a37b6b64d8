"""Hugging Face's hub: which commit a revision is, where a file is, and the SHA-256 that the hub has for it.

Source: "Hub API endpoints", https://huggingface.co/docs/hub/api, and huggingface_hub's environment variables. That
package writes whatever comes and looks at its length afterwards, and needs ten others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from builder.errors import EnvironmentSetupError, ImportModelError
from builder.sources.http import Access, RefusedError, head_at, json_at
from builder.sources.transfer import Bounds, BrokenOffError
from builder.spec.address import Address
from builder.suggest import did_you_mean

_HUB = "https://huggingface.co"


def url_of(address: Address, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the file."""
    revision = quote(address.revision or "main", safe="")
    return f"{_endpoint(environment)}/{address.place}/resolve/{revision}/{quote(address.path)}"


def access_to(address: Address, bounds: Bounds, environment: Mapping[str, str] = os.environ) -> Access:
    """Return the access by HF_TOKEN, or by the token that `hf auth login` has kept."""
    hint = (
        f"If the model wants its terms accepted, do so at {_HUB}/{address.place}. If it is private, set HF_TOKEN to a "
        "token that may read it."
    )
    token = _token(environment)
    return Access(address.shown, hint, {"Authorization": f"Bearer {token}"} if token else {}, bounds=bounds)


def commit_of(address: Address, access: Access, environment: Mapping[str, str] = os.environ) -> str:
    """Ask for the commit (40 hexadecimal digits) of the address's branch or tag. Raises as ``linked_sha256``."""
    commit = _asked(address, access, environment).get("sha")
    if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{40}", commit):
        raise EnvironmentSetupError(f"The hub does not say which commit {address.shown} is.")
    return commit


def linked_sha256(address: Address, access: Access, environment: Mapping[str, str] = os.environ) -> str | None:
    """Ask the hub for the file's SHA-256, which it has for large files.

    Raises ImportModelError where there is no such file, EnvironmentSetupError where the hub refuses or is silent.
    """
    try:
        tag = head_at(url_of(address, environment), access).get("X-Linked-Etag", "").strip('"')
    except RefusedError as refused:
        if refused.headers.get("X-Error-Code") == "EntryNotFound":
            raise _no_file(address, access, environment) from None
        raise _refusal(refused, address) from None
    except BrokenOffError as error:
        raise _silent(address, error) from None
    return tag if re.fullmatch("[0-9a-f]{64}", tag) else None


def _asked(address: Address, access: Access, environment: Mapping[str, str]) -> dict[str, Any]:
    """Ask the hub about the repository at the address's revision."""
    revision = quote(address.revision or "main", safe="")
    try:
        found = json_at(f"{_endpoint(environment)}/api/models/{address.place}/revision/{revision}", access)
    except RefusedError as refused:
        raise _refusal(refused, address) from None
    except BrokenOffError as error:
        raise _silent(address, error) from None
    return found if isinstance(found, dict) else {}


def _no_file(address: Address, access: Access, environment: Mapping[str, str]) -> ImportModelError:
    siblings = _asked(address, access, environment).get("siblings")
    rows = siblings if isinstance(siblings, list) else []
    names = [row["rfilename"] for row in rows if isinstance(row, dict) and isinstance(row.get("rfilename"), str)]
    hint = did_you_mean(address.path, names, 3, 0.4)
    return ImportModelError(f"{address.place} has no file {address.path} at {address.revision or 'main'}.{hint}")


def _refusal(refused: RefusedError, address: Address) -> ImportModelError | EnvironmentSetupError:
    code = refused.headers.get("X-Error-Code")
    if code == "RevisionNotFound":
        return ImportModelError(f"{address.place} has no branch, tag or commit {address.revision}.")
    if code == "RepoNotFound":
        return ImportModelError(
            f"The hub has no model {address.place}, or HF_TOKEN may not see it: set that if the model is private."
        )
    return refused.error


def _silent(address: Address, error: BrokenOffError) -> EnvironmentSetupError:
    return EnvironmentSetupError(f"{address.shown} could not be asked for: {error}. Run the same command again.")


def _endpoint(environment: Mapping[str, str]) -> str:
    return (environment.get("HF_ENDPOINT") or _HUB).rstrip("/")


def _token(environment: Mapping[str, str]) -> str:
    if token := environment.get("HF_TOKEN", "").strip():
        return token
    home = environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    try:
        return Path(environment.get("HF_TOKEN_PATH") or Path(home, "token")).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
