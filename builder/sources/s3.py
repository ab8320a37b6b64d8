"""Objects in S3, by boto3, whose own downloads cannot be resumed by a later run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from builder.base.aws import incomplete_settings, make_client
from builder.base.errors import EnvironmentSetupError, ImportModelError
from builder.config.address import Address
from builder.sources.transfer import Bounds, BrokenOffError, Open, Piece, explain_break

_CHANGED = (412, 416)
"""HTTP statuses: the bytes here belong to another object, or there are none beyond them."""


def make_object_opener(address: Address, bounds: Bounds) -> Open:
    """Return a function that opens the object. It raises ImportModelError and EnvironmentSetupError as well.

    Raises EnvironmentSetupError where boto3 is not installed.
    """
    client = _make_client(bounds)
    location = {"Bucket": address.place, "Key": address.path}
    if address.revision:
        location["VersionId"] = address.revision

    @contextmanager
    def open_at(start: int, mark: str) -> Iterator[Piece]:
        from botocore.exceptions import ClientError

        conditions = {"Range": f"bytes={start}-", "IfMatch": mark} if start else {}
        with _translate_errors(address.shown):
            try:
                answer = client.get_object(**location, **conditions)
            except ClientError as error:
                if not start or _read_status(error) not in _CHANGED:
                    raise
                answer = client.get_object(**location)
        with answer["Body"] as body:
            yield _make_piece(answer, body, address.shown)

    return open_at


def list_keys(bucket: str, prefix: str, what: str, bounds: Bounds) -> Iterator[str]:
    """Yield the keys that begin with ``prefix``, without it. ``what``: their name. Raises as ``make_object_opener``."""
    with explain_break(what), _translate_errors(what):
        pages = _make_client(bounds).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            yield from (row["Key"].removeprefix(prefix) for row in page.get("Contents", []))


def _make_piece(answer: dict[str, Any], body: Any, what: str) -> Piece:
    def read(count: int) -> bytes:
        with _translate_errors(what):
            data: bytes = body.read(count)
            return data

    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.get("ContentRange", ""))
    start, total = (int(span[1]), int(span[2])) if span else (0, answer["ContentLength"])
    return Piece(read, start, total, answer.get("ETag", ""))


def _make_client(bounds: Bounds) -> Any:
    return make_client("s3", attempts=3, connect_timeout=bounds.silence, read_timeout=bounds.silence)


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    """Turn the errors of boto3 into an error that quotes nothing of them."""
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError, IncompleteReadError

    try:
        yield
    except ClientError as error:
        raise _convert_error(error, what) from None
    except (HTTPClientError, ConnectionError, IncompleteReadError, OSError):
        raise BrokenOffError("the connection to S3 broke off, or was not made") from None
    except BotoCoreError as error:
        raise incomplete_settings(error) from None


def _convert_error(error: Any, what: str) -> Exception:
    status, code = _read_status(error), error.response.get("Error", {}).get("Code", "")
    if status in (429, 500, 502, 503, 504):
        return BrokenOffError(f"S3 answers with status {status}")
    if code in ("NoSuchKey", "NoSuchBucket", "NoSuchVersion") or status == 404:
        return ImportModelError(f"{what} is not there. Look at bucket, key and version in model.toml.")
    if status in (400, 401, 403):
        return EnvironmentSetupError(
            f"S3 does not give {what} (status {status}). The credentials here need s3:GetObject for it; S3 "
            "answers so for a key that is not there, too, unless they have s3:ListBucket. AWS_PROFILE chooses others."
        )
    return ImportModelError(f"S3 answers with status {status} for {what}.")


def _read_status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
