"""Models from S3, by the real boto3 from a server of one process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.base.errors import ColdforgeError, EnvironmentSetupError, ImportModelError
from builder.config import Source
from builder.config.address import parse_address
from builder.sources import Bounds, locate_model
from tests.support import s3
from tests.support.sources import QUICK, spec_of

MODEL = bytes(range(256)) * 4000
SHA = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.Bucket]:
    with s3.serving() as served:
        served.objects["models/a b/m.keras"] = MODEL
        for name, value in (served.environment | {"NO_PROXY": "127.0.0.1"}).items():
            monkeypatch.setenv(name, value)
        yield served


def located(folder: Path, address: str = "s3://models/a b/m.keras", sha256: str | None = SHA) -> Path:
    source = Source("keras", None, sha256=sha256, address=parse_address(address))
    return locate_model(spec_of(folder, source), folder / "cache", bounds=QUICK)


def test_an_object_is_fetched_once(bucket: s3.Bucket, tmp_path: Path) -> None:
    path = located(tmp_path)
    assert path == tmp_path / "cache" / "models" / SHA / "m.keras"
    assert path.read_bytes() == MODEL
    assert located(tmp_path) == path
    assert bucket.requests == ["GET models/a b/m.keras"]


def test_it_goes_on_where_it_ended(bucket: s3.Bucket, tmp_path: Path) -> None:
    bucket.cut = 2
    assert located(tmp_path).read_bytes() == MODEL
    assert len(bucket.requests) == 3


def test_another_object_meanwhile_is_fetched_from_its_start(bucket: s3.Bucket, tmp_path: Path) -> None:
    bucket.cut = 9
    source = Source("keras", None, sha256=SHA, address=parse_address("s3://models/a b/m.keras"))
    with pytest.raises(EnvironmentSetupError, match="goes on where this one ended"):
        locate_model(spec_of(tmp_path, source), tmp_path / "cache", bounds=Bounds(attempts=1))
    bucket.cut, bucket.objects["models/a b/m.keras"] = 0, MODEL[::-1]
    digest = hashlib.sha256(MODEL[::-1]).hexdigest()
    assert located(tmp_path, sha256=digest).read_bytes() == MODEL[::-1]


def test_the_line_that_pins_it_is_said(bucket: s3.Bucket, tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match=f'sha256 = "{SHA}"'):
        located(tmp_path, sha256=None)


@pytest.mark.parametrize(
    ("status", "kind", "why"),
    [
        (403, EnvironmentSetupError, "need s3:GetObject"),
        (404, ImportModelError, "is not there"),
        (409, ImportModelError, "status 409"),
    ],
)
def test_what_s3_refuses(bucket: s3.Bucket, tmp_path: Path, status: int, kind: type[ColdforgeError], why: str) -> None:
    bucket.failing["models/a b/m.keras"] = [status] * 20
    with pytest.raises(kind, match=why) as caught:
        located(tmp_path)
    assert "of the test" not in str(caught.value)


def test_no_credentials(bucket: s3.Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="settings here are incomplete"):
        located(tmp_path)
    assert bucket.requests == []
