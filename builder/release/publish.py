"""Publication of a bundle's layer: a new version only when its bytes are new, and nothing half-done.

Layer versions are found again by the SHA-256 that Lambda itself computes of the zip (``CodeSha256``,
https://docs.aws.amazon.com/lambda/latest/api/API_LayerVersionContentOutput.html).
"""

from __future__ import annotations

import base64
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

from builder.base.aws import aws_errors, make_client
from builder.base.cache import file_digest
from builder.base.commands import bundle_command, choose_command
from builder.base.errors import PublishError, UsageError
from builder.base.files import replace_file
from builder.base.project import Project
from builder.base.targets import DEFAULT, Target
from builder.config import DIRECT_UPLOAD_ZIPPED, LAMBDA_UNZIPPED
from builder.package.dependencies import build_dependencies
from builder.package.layer import write_zip
from builder.release.bundle_check import find_checked

RUNTIMES = ["python3.13"]
WAITS = (1, 2, 4, 8, 16)
"""Seconds after each attempt."""
SAM_STACK = "aws-sam-cli-managed-default"
"""Stack that `sam deploy --resolve-s3` makes for its bucket, once for an account and region."""


@dataclass(frozen=True)
class PublishedVersion:
    """A version of a layer."""

    arn: str
    version: int
    created: bool
    """False where AWS had the same bytes already."""
    pruned: tuple[int, ...] = ()
    """Versions that were deleted."""


@dataclass(frozen=True)
class LayerArchive:
    """A zip to be published under a name, for one processor."""

    name: str
    archive: Path
    target: Target


def list_layer_archives(
    name: str, target: Target, project: Project, *, dependencies: bool = False, named: str = ""
) -> Iterator[LayerArchive]:
    """Yield the layer of the bundle ``name``, and the ``dependencies`` layer, zipped here, where that is wanted.

    ``named``: the bundle's name for `make bundle`. Raises UsageError where there is no bundle, or none with a layer,
    and BundleError for one that disagrees with its statement.
    """
    suffix = target.suffix
    bundle = find_checked(project.dist, name, target, named)
    if not bundle.archive.is_file():
        raise UsageError(f"the bundle of {name} is for a container image, and has no layer to publish.")
    yield LayerArchive(f"coldforge-{name}{suffix}", bundle.archive, target)
    if dependencies:
        archive = project.build / f"dependencies{suffix}.zip"
        with replace_file(archive) as fresh:
            write_zip(build_dependencies(project, target)[1], fresh)
        yield LayerArchive(f"coldforge-dependencies{suffix}", archive, target)


def publish_layer(
    archive: Path,
    name: str,
    *,
    architecture: str = DEFAULT.architecture,
    bucket: str | None = None,
    keep: int | None = None,
    endpoint: str | None = None,
) -> PublishedVersion:
    """Make ``archive`` (a layer's zip) a version of the layer ``name``, unless a version has the same bytes.

    A zip over 50 MB goes through the S3 ``bucket`` (SAM's own when None), from which it is deleted again whatever
    happens. ``keep``: the number of newest versions to keep; others that no function uses are deleted afterwards.
    Credentials, region and, unless given, ``endpoint`` are boto3's usual ones. Raises PublishError; the same call then
    continues later from what exists.
    """
    _require_room(archive)
    advice = "\nRemove the cause, then run the same command again: it makes nothing twice."
    with aws_errors(f"publishing {name}", PublishError, advice):
        functions = make_client("lambda", endpoint)
        sha256 = base64.b64encode(bytes.fromhex(file_digest(archive))).decode()
        same_version = _find_same_version(functions, name, sha256)
        created = same_version is None
        if same_version is None:
            with _upload_content(endpoint, archive, bucket) as content:
                same_version = _publish_version(endpoint, name, architecture, sha256, content)
        arn, version = same_version
        pruned = tuple(_delete_old_versions(functions, name, keep, version)) if keep is not None else ()
    return PublishedVersion(arn, version, created, pruned)


def _require_room(archive: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as content:
            unzipped = sum(entry.file_size for entry in content.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise PublishError(f"{archive} cannot be read ({error}): run `{bundle_command()}` again.") from error
    if unzipped > LAMBDA_UNZIPPED:
        raise PublishError(
            f"{archive.name} has {unzipped:,} bytes unzipped, and no layer holds more than {LAMBDA_UNZIPPED:,}: "
            f"deploy a container image instead{choose_command(', with `make bundle deploy PACKAGE=image`', '')}."
        )


def _list_versions(functions: Any, name: str) -> list[Any]:
    """Return the versions, newest first."""
    pages = functions.get_paginator("list_layer_versions").paginate(LayerName=name)
    versions = [row for page in pages for row in page["LayerVersions"]]
    return sorted(versions, key=lambda row: int(row["Version"]), reverse=True)


def _find_same_version(functions: Any, name: str, sha256: str) -> tuple[str, int] | None:
    for row in _list_versions(functions, name):
        version = functions.get_layer_version(LayerName=name, VersionNumber=row["Version"])
        if version["Content"].get("CodeSha256") == sha256:
            return row["LayerVersionArn"], int(row["Version"])
    return None


def _publish_version(
    endpoint: str | None, name: str, architecture: str, sha256: str, content: dict[str, Any]
) -> tuple[str, int]:
    """Publish one new version. When an answer is lost, check whether the version exists before asking again."""
    # Publishing is not idempotent: botocore must not repeat it. Lambda unpacks before it answers.
    functions = make_client("lambda", endpoint, attempts=1, read_timeout=300)
    for wait in WAITS:
        try:
            published = functions.publish_layer_version(
                LayerName=name,
                Description=f"coldforge sha256 {sha256}",
                Content=content,
                CompatibleRuntimes=RUNTIMES,
                CompatibleArchitectures=[architecture],
            )
            return published["LayerVersionArn"], int(published["Version"])
        except (ClientError, BotoCoreError) as error:
            if not _is_transient(error):
                raise
            time.sleep(wait)  # The version may still be under way.
            same_version = _find_same_version(make_client("lambda", endpoint), name, sha256)
            if same_version is not None:
                return same_version
            if wait == WAITS[-1]:
                raise
    raise AssertionError("unreachable")


def _is_transient(error: ClientError | BotoCoreError) -> bool:
    """Return whether a later attempt may succeed: a lost connection, a busy or failing service."""
    if not isinstance(error, ClientError):
        return isinstance(error, ConnectionError | HTTPClientError)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return status >= 500 or status == 429


@contextmanager
def _upload_content(endpoint: str | None, archive: Path, bucket: str | None) -> Iterator[dict[str, Any]]:
    """Yield the Content argument of publish_layer_version; an object in S3 lives no longer than the block."""
    size = archive.stat().st_size
    if size <= DIRECT_UPLOAD_ZIPPED:
        yield {"ZipFile": archive.read_bytes()}
        return
    bucket = bucket or _managed_bucket(endpoint)
    if bucket is None:
        raise PublishError(
            f"{archive.name} is {size:,} bytes, over the {DIRECT_UPLOAD_ZIPPED:,} that Lambda takes directly, and "
            "SAM has no bucket here yet: name an S3 bucket in the same region with --bucket."
        )
    storage = make_client("s3", endpoint)
    # The key is unique: another process must not delete this object.
    s3_object = {"Bucket": bucket, "Key": f"coldforge/{uuid.uuid4()}.zip"}
    try:
        storage.upload_file(str(archive), s3_object["Bucket"], s3_object["Key"])  # A failed upload aborts its parts.
        version = storage.head_object(**s3_object).get("VersionId")
        if version:  # In a bucket with versions (SAM's is one), deleting a name alone keeps the bytes.
            s3_object["VersionId"] = version
        yield {"S3Bucket": bucket, "S3Key": s3_object["Key"]} | ({"S3ObjectVersion": version} if version else {})
    except BaseException:
        with suppress(ClientError, BotoCoreError):  # The error that led here says more.
            storage.delete_object(**s3_object)
        raise
    try:
        storage.delete_object(**s3_object)
    except (ClientError, BotoCoreError) as error:
        raise PublishError(
            f"the layer is published, but s3://{bucket}/{s3_object['Key']} could not be deleted ({error}): delete it."
        ) from error


def _managed_bucket(endpoint: str | None) -> str | None:
    try:
        stack = make_client("cloudformation", endpoint).describe_stacks(StackName=SAM_STACK)["Stacks"][0]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":  # CloudFormation says this where no stack exists.
            return None
        raise
    outputs = {row["OutputKey"]: row["OutputValue"] for row in stack.get("Outputs", [])}
    return outputs.get("SourceBucket")


def _delete_old_versions(functions: Any, name: str, keep: int, current: int) -> Iterator[int]:
    used = set(_layers_in_use(functions))
    for row in _list_versions(functions, name)[max(1, keep) :]:
        if row["LayerVersionArn"] not in used and int(row["Version"]) != current:
            functions.delete_layer_version(LayerName=name, VersionNumber=row["Version"])
            yield int(row["Version"])


def _layers_in_use(functions: Any) -> Iterator[str]:
    """Yield the layers of every version of every function, as an alias may point at any."""
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            versions = functions.get_paginator("list_versions_by_function").paginate(
                FunctionName=function["FunctionName"]
            )
            for version in (row for rows in versions for row in rows["Versions"]):
                yield from (layer["Arn"] for layer in version.get("Layers", []))
