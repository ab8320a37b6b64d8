"""Objects in S3, against the local AWS: requests that name them, through the whole function, and models to build."""

from __future__ import annotations

import base64
import hashlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest

from builder.base.errors import ImportModelError
from builder.config import Source
from builder.config.address import parse_address
from builder.sources import locate_model
from builder.sources.s3 import list_keys
from builder.sources.transfer import USUAL
from handler import storage
from tests.support import abi_library
from tests.support.aws import client_environment, local_aws
from tests.support.sources import spec_of

ROOT = Path(__file__).parents[2]
FACE = (ROOT / "tests/data/face.jpg").read_bytes()
CONTEXT = SimpleNamespace(
    function_name="f",
    memory_limit_in_mb="128",
    invoked_function_arn="arn:aws:lambda:us-east-1:1:function:f",
    aws_request_id="request-1",
    get_remaining_time_in_millis=lambda: 15_000,
)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    subprocess.run(["make", "--silent", ".venv-aws/.done"], cwd=ROOT, check=True)
    with local_aws(tmp_path_factory.mktemp("aws") / "log") as aws:
        yield aws.endpoint


@pytest.fixture
def app(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The function as started with S3Sources="photos/in/,missing/"; photos/ holds two faces and a large file."""
    for name, value in client_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(storage, "_clients", {})
    objects = boto3.client("s3")
    objects.create_bucket(Bucket="photos")
    for key in ("in/face.jpg", "in/a b+ü.jpg", "elsewhere.jpg"):
        objects.put_object(Bucket="photos", Key=key, Body=FACE)
    objects.put_object(Bucket="photos", Key="in/large", Body=bytes(11_000_000))
    library = abi_library.build(tmp_path, abi_library.picture_description(batch=2))
    monkeypatch.setenv("COLDFORGE_LIBRARY", str(library))
    monkeypatch.setenv("COLDFORGE_S3_SOURCES", "photos/in/,missing/")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")
    sys.modules.pop("handler.app", None)
    yield importlib.import_module("handler.app")
    sys.modules.pop("handler.app", None)


def asked(app: ModuleType, event: object) -> Any:
    return app.lambda_handler(event, CONTEXT)


def test_an_object_is_answered_like_the_image_itself(app: ModuleType) -> None:
    direct = asked(app, {"image": base64.b64encode(FACE).decode()})
    named = asked(app, {"image": {"s3": "s3://photos/in/face.jpg"}})
    assert named["predictions"] == direct["predictions"]
    assert list(named["timings_ms"]) == ["fetch", "decode", "infer", "total"]
    several = asked(app, {"images": [{"s3": "s3://photos/in/a b+ü.jpg"}, base64.b64encode(FACE).decode()] * 2})
    assert several["predictions"] == direct["predictions"] * 4


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("s3://photos/elsewhere.jpg", "source_not_allowed"),
        ("s3://photos/in/none.jpg", "source_unavailable"),
        ("s3://missing/none.jpg", "source_unavailable"),
        ("s3://photos/in/large", "too_large"),
        ("s3://photos", "wrong_type"),
    ],
)
def test_what_cannot_be_fetched_is_refused_and_the_next_works(app: ModuleType, address: str, code: str) -> None:
    assert asked(app, {"image": {"s3": address}})["error"]["code"] == code
    assert "predictions" in asked(app, {"image": {"s3": "s3://photos/in/face.jpg"}})


def test_a_model_is_fetched_from_a_bucket(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in client_environment(endpoint).items():
        monkeypatch.setenv(name, value)
    objects = boto3.client("s3")
    objects.create_bucket(Bucket="models")
    objects.put_bucket_versioning(Bucket="models", VersioningConfiguration={"Status": "Enabled"})
    first = objects.put_object(Bucket="models", Key="a b/m.keras", Body=FACE)["VersionId"]
    objects.put_object(Bucket="models", Key="a b/m.keras", Body=b"newer")
    source = Source("keras", None, address=parse_address(f"s3://models/a b/m.keras?versionId={first}"))
    with pytest.raises(ImportModelError, match=f'sha256 = "{hashlib.sha256(FACE).hexdigest()}"'):
        locate_model(spec_of(tmp_path, source), tmp_path / "cache")
    pinned = replace(source, sha256=hashlib.sha256(FACE).hexdigest())
    assert locate_model(spec_of(tmp_path, pinned), tmp_path / "cache").read_bytes() == FACE
    assert list(list_keys("models", "a b/", "the bucket", USUAL)) == ["m.keras"]
    with pytest.raises(ImportModelError, match="is not there"):
        locate_model(
            spec_of(tmp_path, replace(source, address=parse_address("s3://models/x.keras"))), tmp_path / "cache"
        )
