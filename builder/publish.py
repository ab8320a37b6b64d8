"""Publish a bundle's layer: a new version only when its bytes are new, and nothing half-done.

Layer versions are found again by the SHA-256 that Lambda itself computes of the zip (``CodeSha256``,
https://docs.aws.amazon.com/lambda/latest/api/API_LayerVersionContentOutput.html).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from builder.cache import file_digest
from builder.errors import PublishError
from builder.spec import DIRECT_UPLOAD_ZIPPED

RUNTIMES = ["python3.13"]
RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 5})


@dataclass(frozen=True)
class Published:
    """A layer version. ``created`` is False when the same bytes were there already."""

    arn: str
    version: int
    created: bool
    pruned: tuple[int, ...] = ()


def publish(
    archive: Path,
    name: str,
    *,
    architecture: str = "x86_64",
    bucket: str | None = None,
    keep: int | None = None,
) -> Published:
    """Make ``archive`` (a layer's zip) the newest version of the layer ``name``, unless some version is it.

    A zip over 50 MB goes through the S3 ``bucket``, from which it is deleted again whatever happens. ``keep``:
    afterwards delete all but the newest so many versions, sparing those that any function uses.
    Credentials, region and endpoint are boto3's usual ones. Raises PublishError; a failure leaves no version.
    """
    with _aws_errors(f"publishing {name}"):
        functions = boto3.client("lambda", config=RETRIES)
        sha256 = base64.b64encode(bytes.fromhex(file_digest(archive))).decode()
        there = _same(functions, name, sha256)
        created = there is None
        if there is None:
            with _content(archive, sha256, bucket) as content:
                made = functions.publish_layer_version(
                    LayerName=name,
                    Description=f"coldforge sha256 {sha256}",
                    Content=content,
                    CompatibleRuntimes=RUNTIMES,
                    CompatibleArchitectures=[architecture],
                )
            there = (made["LayerVersionArn"], int(made["Version"]))
        arn, version = there
        pruned = tuple(_prune(functions, name, keep, version)) if keep is not None else ()
    return Published(arn, version, created, pruned)


def _versions(functions: Any, name: str) -> list[Any]:
    """Newest first."""
    pages = functions.get_paginator("list_layer_versions").paginate(LayerName=name)
    found = [row for page in pages for row in page["LayerVersions"]]
    return sorted(found, key=lambda row: int(row["Version"]), reverse=True)


def _same(functions: Any, name: str, sha256: str) -> tuple[str, int] | None:
    for row in _versions(functions, name):
        version = functions.get_layer_version(LayerName=name, VersionNumber=row["Version"])
        if version["Content"].get("CodeSha256") == sha256:
            return row["LayerVersionArn"], int(row["Version"])
    return None


@contextmanager
def _content(archive: Path, sha256: str, bucket: str | None) -> Iterator[dict[str, Any]]:
    """The Content argument of publish_layer_version; an object in S3 lives no longer than the block."""
    if archive.stat().st_size <= DIRECT_UPLOAD_ZIPPED:
        yield {"ZipFile": archive.read_bytes()}
        return
    if bucket is None:
        raise PublishError(
            f"{archive.name} is {archive.stat().st_size:,} bytes, over the {DIRECT_UPLOAD_ZIPPED:,} that Lambda takes "
            "directly: name an S3 bucket in the same region with --bucket."
        )
    storage = boto3.client("s3", config=RETRIES)
    key = f"coldforge/{hashlib.sha256(sha256.encode()).hexdigest()}.zip"
    try:
        storage.upload_file(str(archive), bucket, key)
        yield {"S3Bucket": bucket, "S3Key": key}
    finally:
        # Multipart uploads that failed are aborted by boto3 itself; the error that led here says more than this one.
        with suppress(ClientError, BotoCoreError):
            storage.delete_object(Bucket=bucket, Key=key)


def _prune(functions: Any, name: str, keep: int, current: int) -> Iterator[int]:
    used = set(_layers_in_use(functions))
    for row in _versions(functions, name)[max(1, keep) :]:
        if row["LayerVersionArn"] not in used and int(row["Version"]) != current:
            functions.delete_layer_version(LayerName=name, VersionNumber=row["Version"])
            yield int(row["Version"])


def _layers_in_use(functions: Any) -> Iterator[str]:
    """The layers of every version of every function: an alias may point at any."""
    for page in functions.get_paginator("list_functions").paginate(FunctionVersion="ALL"):
        for function in page["Functions"]:
            yield from (layer["Arn"] for layer in function.get("Layers", []))


@contextmanager
def _aws_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError, boto3.exceptions.Boto3Error) as error:
        raise PublishError(
            f"{doing} failed: {error}\nNothing was left half-done; run the same command again once the cause is gone."
        ) from error
