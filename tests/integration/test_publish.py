"""`coldforge publish` against a local AWS: once for the same bytes, through S3 when large, nothing half-done.

Layers need no Docker: the emulator keeps them, and nothing here runs a function.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from builder.base.errors import PublishError, UsageError
from builder.cli import main
from builder.config import LAMBDA_UNZIPPED
from builder.package.bundle import Bundle
from builder.release.publish import SAM_STACK, publish_layer
from tests.support import local_server
from tests.support.aws import EMULATOR, ROOT, LocalAws, client_environment, local_aws
from tests.support.results import printed

LARGE = 53_000_000

pytestmark = [pytest.mark.integration, pytest.mark.network, pytest.mark.xdist_group("checkout")]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    if not EMULATOR.exists():
        subprocess.run(["make", "--silent", ".venv-aws/.done"], cwd=ROOT, check=True)
    with local_aws(tmp_path_factory.mktemp("aws") / "log") as running:
        yield running


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


def objects(bucket: str) -> list[Any]:
    """Everything in a bucket: versions, marks of deletion, uploads that did not end."""
    storage = boto3.client("s3")
    there = storage.list_object_versions(Bucket=bucket)
    found: list[Any] = there.get("Versions", []) + there.get("DeleteMarkers", [])
    return found + storage.list_multipart_uploads(Bucket=bucket).get("Uploads", [])


class Fault(local_server.Handler):
    """Forwards to the emulator, but for the first publication of a layer, which meets ``fault``."""

    upstream: str
    fault: list[str]

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        met = self.fault.pop() if self.fault and self.path.endswith("/versions") and self.command == "POST" else ""
        if met == "refused":
            self._answer(403, {"x-amzn-errortype": "AccessDeniedException"}, b"{}")
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
        request = urllib.request.Request(self.upstream + self.path, body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(request) as reply:
                status, fields, answer = reply.status, dict(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            status, fields, answer = error.code, dict(error.headers), error.read()
        if met == "lost":
            self.close_connection = True
        else:
            self._answer(status, fields, answer)

    def _answer(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in fields.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _forward


@contextmanager
def faulty(aws: LocalAws, fault: str) -> Iterator[str]:
    """An endpoint where the first publication is "refused", or done and its answer "lost"."""
    handler = type("Handler", (Fault,), {"upstream": aws.endpoint, "fault": [fault]})
    with local_server.serve(handler) as port:
        yield f"http://127.0.0.1:{port}"


def test_the_same_bytes_are_published_once(aws: LocalAws, tmp_path: Path) -> None:
    first = publish_layer(archive(tmp_path, b"1"), "once")
    assert first.created
    assert first.arn.endswith(":layer:once:1")
    assert publish_layer(archive(tmp_path, b"1"), "once") == type(first)(first.arn, 1, created=False)
    second = publish_layer(archive(tmp_path, b"2"), "once")
    assert (second.version, second.created) == (2, True)
    assert publish_layer(archive(tmp_path, b"1"), "once").version == 1
    assert versions("once") == [1, 2]


def test_a_layer_says_its_processor(aws: LocalAws, tmp_path: Path) -> None:
    publish_layer(archive(tmp_path, b"1"), "arm", architecture="arm64")
    (row,) = boto3.client("lambda").list_layer_versions(LayerName="arm")["LayerVersions"]
    assert row["CompatibleArchitectures"] == ["arm64"]


@pytest.mark.parametrize("versioned", [False, True])
def test_a_large_zip_goes_through_s3_and_leaves_no_object(aws: LocalAws, tmp_path: Path, versioned: bool) -> None:
    bucket = name = f"large-{versioned}".lower()
    storage = boto3.client("s3")
    storage.create_bucket(Bucket=bucket)
    if versioned:
        storage.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    large = archive(tmp_path, os.urandom(LARGE))
    assert publish_layer(large, name, bucket=bucket).created
    assert not publish_layer(large, name, bucket=bucket).created
    assert objects(bucket) == []
    assert versions(name) == [1]


def test_without_a_bucket_it_is_sams(aws: LocalAws, tmp_path: Path) -> None:
    large = archive(tmp_path, os.urandom(LARGE))
    with pytest.raises(PublishError, match="--bucket"):
        publish_layer(large, "managed")
    template = {
        "Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "sams"}}},
        "Outputs": {"SourceBucket": {"Value": {"Ref": "Bucket"}}},
    }
    stacks = boto3.client("cloudformation")
    stacks.create_stack(StackName=SAM_STACK, TemplateBody=json.dumps(template))
    stacks.get_waiter("stack_create_complete").wait(StackName=SAM_STACK, WaiterConfig={"Delay": 1})
    assert publish_layer(large, "managed").created
    assert objects("sams") == []


def test_a_failed_upload_leaves_nothing(aws: LocalAws, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="NoSuchBucket"):
        publish_layer(archive(tmp_path, os.urandom(LARGE)), "failed", bucket="no-such-bucket")
    assert versions("failed") == []


def test_a_refused_layer_leaves_no_object(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3.client("s3").create_bucket(Bucket="refused")
    large = archive(tmp_path, os.urandom(LARGE))
    with faulty(aws, "refused") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", endpoint)
        with pytest.raises(PublishError, match="AccessDenied"):
            publish_layer(large, "refused", bucket="refused")
    monkeypatch.delenv("AWS_ENDPOINT_URL_LAMBDA")
    assert objects("refused") == []
    assert versions("refused") == []


def test_a_lost_answer_makes_no_second_version(aws: LocalAws, tmp_path: Path) -> None:
    with faulty(aws, "lost") as endpoint:
        done = publish_layer(archive(tmp_path, b"1"), "lost", endpoint=endpoint)
    assert (done.version, done.created) == (1, True)
    assert versions("lost") == [1]


def test_what_no_layer_holds_is_not_uploaded(tmp_path: Path) -> None:
    path = tmp_path / "layer.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("lib/libmodel.so", bytes(LAMBDA_UNZIPPED + 1))
    with pytest.raises(PublishError, match="PACKAGE=image"):
        publish_layer(path, "huge", endpoint="http://127.0.0.1:9")
    path.write_bytes(b"PK")
    with pytest.raises(PublishError, match="cannot be read"):
        publish_layer(path, "huge", endpoint="http://127.0.0.1:9")


def test_pruning_spares_what_functions_use(aws: LocalAws, tmp_path: Path) -> None:
    arns = [publish_layer(archive(tmp_path, bytes([n])), "pruned").arn for n in range(4)]
    role = "arn:aws:iam::000000000000:role/none"
    code = {"ZipFile": archive(tmp_path, b"code").read_bytes()}
    functions = boto3.client("lambda")
    functions.create_function(
        FunctionName="user", Runtime="python3.13", Role=role, Handler="a.b", Code=code, Layers=[arns[1]]
    )
    done = publish_layer(archive(tmp_path, bytes([9])), "pruned", keep=2)
    assert done.pruned == (3, 1)
    assert versions("pruned") == [2, 4, 5]
    functions.delete_function(FunctionName="user")
    assert publish_layer(archive(tmp_path, bytes([9])), "pruned", keep=1).pruned == (4, 2)


def test_pruning_spares_what_an_old_version_of_a_function_uses(aws: LocalAws, tmp_path: Path) -> None:
    arns = [publish_layer(archive(tmp_path, bytes([n])), "aliased").arn for n in range(3)]
    role = "arn:aws:iam::000000000000:role/none"
    code = {"ZipFile": archive(tmp_path, b"code").read_bytes()}
    functions = boto3.client("lambda")
    functions.create_function(
        FunctionName="aliased", Runtime="python3.13", Role=role, Handler="a.b", Code=code, Layers=[arns[0]]
    )
    functions.publish_version(FunctionName="aliased")
    functions.update_function_configuration(FunctionName="aliased", Layers=[arns[2]])
    assert publish_layer(archive(tmp_path, bytes([2])), "aliased", keep=1).pruned == (2,)
    assert versions("aliased") == [1, 3]


def test_the_newest_version_is_never_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "emotion", "--prune", "0"]) == UsageError.exit_code
    assert "--prune: 0 cannot be used" in capsys.readouterr().err


def test_no_aws_is_said_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in client_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PublishError, match="Could not connect"):
        publish_layer(archive(tmp_path, b"1"), "nowhere")


def test_the_command(aws: LocalAws, emotion: Bundle) -> None:
    command = ["make", "--silent", "publish", "MODEL=emotion", "PUBLISH_FLAGS=--dependencies --json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [printed("publish", line) for line in done.stdout.splitlines()]
    assert [row["arn"].split(":")[6] for row in rows] == ["coldforge-emotion", "coldforge-dependencies"]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not any(json.loads(line)["created"] for line in again.stdout.splitlines())
