"""`coldforge publish` against a local AWS: once for the same bytes, through S3 when large, nothing half-done."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import boto3
import pytest

from builder.errors import PublishError
from builder.pack.bundle import Bundle
from builder.publish import publish
from tests.e2e.aws import ROOT, LocalAws, client_environment

BUCKET = "uploads"
LARGE = 53_000_000


@pytest.fixture
def aws(local: LocalAws, monkeypatch: pytest.MonkeyPatch) -> LocalAws:
    for name, value in client_environment(local.endpoint).items():
        monkeypatch.setenv(name, value)
    return local


def archive(folder: Path, content: bytes) -> Path:
    path = folder / "layer.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr(zipfile.ZipInfo("lib/libmodel.so"), content)
    return path


def versions(name: str) -> list[int]:
    rows = boto3.client("lambda").list_layer_versions(LayerName=name)["LayerVersions"]
    return sorted(int(row["Version"]) for row in rows)


def objects() -> list[Any]:
    found: list[Any] = boto3.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return found


def test_the_same_bytes_are_published_once(aws: LocalAws, tmp_path: Path) -> None:
    first = publish(archive(tmp_path, b"1"), "once")
    assert first.created
    assert first.arn.endswith(":layer:once:1")
    assert publish(archive(tmp_path, b"1"), "once") == type(first)(first.arn, 1, created=False)
    second = publish(archive(tmp_path, b"2"), "once")
    assert (second.version, second.created) == (2, True)
    assert publish(archive(tmp_path, b"1"), "once").version == 1
    assert versions("once") == [1, 2]


def test_a_large_zip_goes_through_s3_and_leaves_no_object(aws: LocalAws, tmp_path: Path) -> None:
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    large = archive(tmp_path, os.urandom(LARGE))
    with pytest.raises(PublishError, match="--bucket"):
        publish(large, "large")
    assert publish(large, "large", bucket=BUCKET).created
    assert not publish(large, "large", bucket=BUCKET).created
    assert objects() == []
    assert versions("large") == [1]


def test_a_failed_upload_leaves_nothing(aws: LocalAws, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="Nothing was left half-done"):
        publish(archive(tmp_path, os.urandom(LARGE)), "failed", bucket="no-such-bucket")
    assert versions("failed") == []


def test_pruning_spares_what_functions_use(aws: LocalAws, tmp_path: Path) -> None:
    arns = [publish(archive(tmp_path, bytes([n])), "pruned").arn for n in range(4)]
    role = "arn:aws:iam::000000000000:role/none"
    code = {"ZipFile": archive(tmp_path, b"code").read_bytes()}
    functions = boto3.client("lambda")
    functions.create_function(
        FunctionName="user", Runtime="python3.13", Role=role, Handler="a.b", Code=code, Layers=[arns[1]]
    )
    done = publish(archive(tmp_path, bytes([9])), "pruned", keep=2)
    assert done.pruned == (3, 1)
    assert versions("pruned") == [2, 4, 5]
    functions.delete_function(FunctionName="user")
    assert publish(archive(tmp_path, bytes([9])), "pruned", keep=1).pruned == (4, 2)


def test_no_aws_is_said_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in client_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PublishError, match="Could not connect"):
        publish(archive(tmp_path, b"1"), "nowhere")


def test_the_command(aws: LocalAws, emotion: Bundle) -> None:
    command = ["make", "--silent", "publish", "MODEL=emotion", "PUBLISH_FLAGS=--dependencies --json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["arn"].split(":")[6] for row in rows] == ["coldforge-emotion", "coldforge-dependencies"]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not any(json.loads(line)["created"] for line in again.stdout.splitlines())
