"""Models from Kaggle: one archive a version, behind a redirect to another host."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from builder.base.errors import EnvironmentSetupError
from builder.config import Source
from builder.config.address import parse_address
from builder.sources import locate_model
from tests.support.sources import QUICK, packed, site, spec_of, unchanged
from tests.support.website import Website, says, website

__all__ = ["site"]

ADDRESS = "kaggle://google/yamnet/tensorFlow2/yamnet/1"
DOWNLOAD = "/api/v1/models/google/yamnet/tensorFlow2/yamnet/1/download"
ARCHIVE = packed({"./saved_model.pb": b"graph", "./variables/variables.index": b"index"})
KEY = "s3cr3t"


@pytest.fixture(autouse=True)
def kaggle(site: Website, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAGGLE_API_ENDPOINT", site.origin)
    monkeypatch.setenv("KAGGLE_CONFIG_DIR", str(tmp_path))
    for name in ("KAGGLE_USERNAME", "KAGGLE_KEY", "KAGGLE_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def located(folder: Path) -> Path:
    source = Source("saved_model", None, address=parse_address(ADDRESS))
    return locate_model(spec_of(folder, source), folder / "cache", bounds=QUICK)


def test_a_version_is_pin_enough(site: Website, tmp_path: Path) -> None:
    with website() as storage:
        storage.files["/archive"] = ARCHIVE
        site.answers[DOWNLOAD] = says(302, Location=f"{storage.origin}/archive?sig={KEY}")
        found = located(tmp_path)
        assert found.name == "unpacked"
        assert (found / "saved_model.pb").read_bytes() == b"graph"
        with unchanged(tmp_path):
            assert located(tmp_path) == found
        assert len(storage.requests) == 1


@pytest.mark.parametrize("how", ["environment", "file", "token"])
def test_credentials_go_to_kaggle_alone(
    site: Website, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    wanted = "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode()
    if how == "environment":
        monkeypatch.setenv("KAGGLE_USERNAME", "me")
        monkeypatch.setenv("KAGGLE_KEY", KEY)
    elif how == "file":
        (tmp_path / "kaggle.json").write_text(json.dumps({"username": "me", "key": KEY}))
    else:
        monkeypatch.setenv("KAGGLE_API_TOKEN", KEY)
        wanted = f"Bearer {KEY}"
    with website() as storage:
        storage.files["/archive"] = ARCHIVE
        site.answers[DOWNLOAD] = says(302, Location=f"{storage.origin}/archive")
        located(tmp_path)
        assert site.requests[0].headers["authorization"] == wanted
        assert "authorization" not in storage.requests[0].headers


def test_terms_that_were_not_accepted(site: Website, tmp_path: Path) -> None:
    site.answers[DOWNLOAD] = says(403)
    with pytest.raises(EnvironmentSetupError, match=r"accepted, do so on its page at kaggle\.com"):
        located(tmp_path)


def test_a_kaggle_json_that_is_none(site: Website, tmp_path: Path) -> None:
    (tmp_path / "kaggle.json").write_text(f'{{"key": "{KEY}"')
    with pytest.raises(EnvironmentSetupError, match=r"kaggle\.json is not what Kaggle gives") as caught:
        located(tmp_path)
    assert KEY not in str(caught.value)
