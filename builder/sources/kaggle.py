"""Access to Kaggle's models: each version is one archive.

Source: Kaggle's public API, as its own client uses it (https://github.com/Kaggle/kagglehub). That client fetches and
unpacks any archive, without limits.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from builder.base.errors import EnvironmentSetupError
from builder.config.address import Address
from builder.sources.https_client import Access, make_basic_auth
from builder.sources.transfer import Bounds


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
